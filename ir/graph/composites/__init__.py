"""What models are made of, as composites: activations, normalisation, attention, weights, caches,
and the choice of a token."""

from . import activations as activations
from . import attention as attention
from . import cache as cache
from . import linear as linear
from . import normalization as normalization
from . import rotary as rotary
from . import sampling as sampling
