"""The methods that AGM-BiO is compared with, one file per paper."""
