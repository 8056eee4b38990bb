"""Leaves out the tests of decoding where OpenCV is not installed; CI has it."""

import importlib.util
import os

# OpenCV asks for a newer NumPy than the one of tests/lowest.txt.
_DECODES = importlib.util.find_spec("cv2") or os.environ.get("CI") == "true"
_DECODING = ["test_decode_on.py", "test_image_decode.py", "test_image_header.py"]
collect_ignore = [] if _DECODES else _DECODING
