"""Side-by-side measurements. Nothing in the package imports from here."""
