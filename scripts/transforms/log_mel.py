"""Log-mel spectrogram by torchaudio: 80 bands, a window of 25 ms each 10 ms.

Built once in each process. In a worker it is the work of one thread, in the training's process that of all of torch's.
"""

from scripts.transforms import _mel

VERSION = 1
KINDS = ("audio",)
REQUIRES = ("torchaudio",)
RANDOM = False
OPTIONS = _mel.OPTIONS
make = _mel.log_mel
