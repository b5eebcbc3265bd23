"""What a level is made of: smooth losses and penalties, their prox, with a cut, and level sets."""
