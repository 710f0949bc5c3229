"""The algorithms of the methods that LP-LLP is compared with, as functions of rows and bags."""
