"""Closed forms: what the supersteps of a plan are charged for, without making its messages, of which it may have p^2.

Choices are made by them. The tests hold each equal to what its plan counts. Locality is the largest there can be.
"""
