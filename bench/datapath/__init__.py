"""
What a path moves per second, and what it costs: GB/s and CPU seconds per GB, side by side.

Every path is a row (`row.py`), listed in `rows/catalogue.py`. All rows of one server and one block
size are prepared first and then take turns (`rounds.py`), so that a noisy moment hits them alike;
what counts is a row's figure over a baseline's of the same run (`goals.py`).
"""
