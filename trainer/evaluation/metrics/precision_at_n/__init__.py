"""P@N: is the true response among the N best of its candidates?"""
