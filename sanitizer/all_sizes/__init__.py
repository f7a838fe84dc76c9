"""`sanitize --for-all`: one launch with sizes in place of numbers, checked for all of them at once."""
