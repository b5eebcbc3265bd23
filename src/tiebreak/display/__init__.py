"""What a person looks at: pictures, pages for the browser, outputs of notebooks, progress."""
