"""What moving letters, and single parts of the product, cost."""

import sys
from pathlib import Path

# The packages of the functions, as in Lambda.
sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))
