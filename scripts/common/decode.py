"""Decodes one recording in this process, as blocks of float32, mono or stereo; says what of it is lost and why."""

import errno
import stat
from collections import deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
from av.stream import Discard

from scripts.common.audio_header import announced_seconds, bytes_of_next_wav, ogg_fault
from scripts.common.errors import advice

BLOCK_SECONDS = 1.0  # decoded at a time: stays in the cache, and bounds the memory of a recording of any length
PEAK_SECONDS = 0.1  # of which the largest value is noted: shorter than any item that is searched for silence
EDGE_SECONDS = 0.01  # before a fault: more than half the filter that resamples
SETTLE_SECONDS = 0.1  # after a fault: Opus takes 80 ms (RFC 7845, section 4.6), MP3 borrows bits from earlier frames
TRIES = 3  # to read on behind an error of the container
TAGS = (b"ID3", b"TAG", b"APETAGEX", b"LYRICSBEGIN")  # what lies between the frames of MP3 and is no audio
MATROSKA = "matroska,webm"
STAMPED = ("flac", "ogg", MATROSKA, "mov,mp4,m4a,3gp,3g2,mj2")  # containers whose time stamps show what is missing
STAMP_SECONDS, VORBIS_SECONDS = 0.03, 0.1  # by which they err in whole files; Vorbis has frames of two lengths
MOST_MISSING_SECONDS = 3600.0  # more is a damaged time stamp
JOINED = ("flac", "ogg")  # containers whose time stamps begin again where another file was joined


class Rejected(Exception):
    """A recording, or a part of one, that cannot be used.

    The text is one line, ``kind: detail``; the kind alone is what rejections are counted by. Of a recording that is
    cut, it stands for `parts` items in a row.
    """

    def __init__(self, reason: str, parts: int = 1) -> None:
        super().__init__(reason)
        self.parts = parts


class Lost(NamedTuple):
    """A part that cannot be used, in samples of the recording."""

    start: float
    stop: float  # infinite: to the end
    reason: str


class Recording:
    """An open recording. `lost` and `remarks` cover what was read of `blocks` so far.

    Zeros stand in `blocks` for what is lost, so that what follows keeps its time, as far as the file tells it.
    """

    def __init__(self, sample_rate: int, channels: int = 1) -> None:
        self.sample_rate, self.channels = sample_rate, channels
        self.blocks: Iterator[np.ndarray] = iter(())  # float32 (n,) of one channel, (n, 2) of two, at `sample_rate`
        self.peaks: deque[tuple[int, float]] = (
            deque()
        )  # of PEAK_SECONDS of several channels: first sample, largest value
        self.lost: list[Lost] = []
        self.remarks: dict[str, int] = {}  # ``kind: detail`` of what is taken in another form, and its first sample

    def lose(self, start: int, samples: float, reason: str) -> None:
        """Note a fault at sample `start`, with what the decoder and the resampler make worse around it.

        Faults that meet are one, with the reason of the longer one.
        """
        edge, settle = EDGE_SECONDS * self.sample_rate, SETTLE_SECONDS * self.sample_rate
        lost = Lost(start - edge, start + samples + settle, reason)
        if self.lost and self.lost[-1].stop >= lost.start:
            before = self.lost.pop()
            longer = max(before, lost, key=lambda one: one.stop - one.start)
            lost = Lost(min(before.start, lost.start), max(before.stop, lost.stop), longer.reason)
        self.lost.append(lost)

    def peak(self, start: float, stop: float) -> float:
        """Return the largest value, of full scale 1, that a channel has between two samples, before mixing down.

        Forgets what is before `start`, as `first_lost` does.
        """
        while self.peaks and self.peaks[0][0] < start:
            self.peaks.popleft()
        near = self.sample_rate * PEAK_SECONDS
        return max((peak for at, peak in self.peaks if at < stop - near), default=0.0)

    def first_lost(self, start: float, stop: float) -> Lost | None:
        """Return the first fault between two samples, if there is one."""
        self.lost = [lost for lost in self.lost if lost.stop > start]
        return next((lost for lost in self.lost if lost.start < stop), None)


def open_recording(path: Path, start_seconds: float, stop_seconds: float | None, channels: int = 1) -> Recording:
    """Return the recording's part from `start_seconds` to `stop_seconds` (None: to the end), mixed to 1 or 2 channels.

    Seconds count from the first sample that FFmpeg gives. It leaves out an encoder's delay where the file tells it: by
    a Xing tag, an edit list or a pre-skip. Bare AAC (ADTS) and MP3 without a tag do not tell it. They begin with the
    delay, after FFmpeg's encoders 1,024 and 1,105 samples.

    The file is read forward only, and the memory does not grow with its length. Raises Rejected for what cannot be
    opened or used at all, and OSError where the device fails, also from the blocks.
    """
    _check_file(path)
    try:
        container = av.open(f"file:{path}", metadata_errors="ignore")  # a name like `a:b.wav` is no protocol
    except av.FFmpegError as error:
        _check_device(path, error)
        raise Rejected(f"not decodable: {error.strerror}") from None
    try:
        stream = _audio_stream(container)
        rate = stream.codec_context.sample_rate
        announced = announced_seconds(path, _header_seconds(container, stream))
    except BaseException:
        container.close()
        raise
    first = round(start_seconds * rate)
    stop = None if stop_seconds is None else round(stop_seconds * rate)
    recording = Recording(rate, channels)
    recording.blocks = _blocks(_Decoder(path, container, stream, recording), first, stop, announced)
    return recording


def _audio_stream(container: Any) -> Any:
    """Return the audio stream that FFmpeg holds for the best, the others set to be skipped. Raises Rejected."""
    stream = container.streams.best("audio")
    if stream is None:
        raise Rejected("no audio stream")
    if stream.codec_context is None:
        raise Rejected("not decodable: FFmpeg has no decoder for its codec")
    if not stream.codec_context.sample_rate:
        raise Rejected("not decodable: the file has no sample rate")
    for other in container.streams:
        if other is not stream:
            other.discard = Discard.all
    stream.codec_context.thread_count = 1  # the processes are as many as the user asked for
    return stream


def _header_seconds(container: Any, stream: Any) -> float | None:
    """Return the stream's length by FFmpeg's reading of the header, else the container's, else None.

    In Matroska the container's is that of the longest stream, and a tag may have the stream's.
    """
    if stream.duration is not None:
        return float(stream.duration * stream.time_base)
    if container.format.name == MATROSKA:
        begin = float((stream.start_time or 0) * stream.time_base)  # both count from the time stamp 0
        parts = stream.metadata.get("DURATION", "").split(":")
        if len(parts) == 3 and all(part.replace(".", "", 1).isdigit() for part in parts):
            return sum(60**power * float(part) for power, part in zip((2, 1, 0), parts, strict=True)) - begin
        if len(container.streams) > 1 or container.duration is None:
            return None
        return container.duration / av.time_base - begin
    return None if container.duration is None else container.duration / av.time_base


def _check_file(path: Path) -> None:
    """Raise Rejected for a file that is absent, unreadable, empty or not a file."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # asked first: opening a named pipe would wait for ever
            raise Rejected("not a regular file")
        with open(path, "rb"):
            pass
    except OSError as error:
        raise refused(error) from None
    if status.st_size == 0:
        raise Rejected("empty file")


def refused(error: OSError) -> Rejected:
    """Return the reason why a file that the system does not give is left out; raise what is the machine's fault."""
    if isinstance(error, FileNotFoundError):
        return Rejected("file vanished")
    if advice(error):
        raise error
    return Rejected(f"file cannot be read: {error.strerror}")


def _check_device(path: Path, error: av.FFmpegError) -> None:
    """Raise OSError where the file cannot be read to its end: FFmpeg says the same of a damaged one."""
    if error.errno != errno.EIO:
        return
    try:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
    except OSError as broken:
        broken.filename = str(path)
        raise


class _Decoder:
    """Decodes a recording's packets one by one, goes on behind a fault, and notes in the recording what is lost."""

    def __init__(self, path: Path, container: Any, stream: Any, recording: Recording) -> None:
        self.path, self.container, self.stream, self.recording = path, container, stream, recording
        self.rate = recording.sample_rate
        self.name = container.format.name
        self.raw = self.name == "mp3"  # frames one after another, whose time only their bytes tell
        self.stamp_error = VORBIS_SECONDS if stream.codec_context.name == "vorbis" else STAMP_SECONDS
        if self.name == "flac":  # which counts samples
            self.stamp_error = 0
        self.position = 0  # of the next frame, in samples
        self.base: float | None = None  # time stamp of position 0, in samples
        self.unit = 0.0  # of time stamps, in samples
        self.fault = ""  # since the last frame
        self.missing = 0.0  # samples of the packets that failed since then
        self.bytes = 0  # of the packets that were decoded, all together
        self.tag_end = 0  # byte at which the tag ends that is being passed over
        self.last = b""  # packet of MP3, or of bare AAC that failed
        self.joined = False  # the header is that of the first part
        self.read_to = 0  # byte of the file
        self.broken = False  # nothing of the rest can be used

    @property
    def seconds(self) -> float:
        """Where the next frame begins."""
        return self.position / self.rate

    def frames(self) -> Iterator[av.AudioFrame | int]:
        """Yield frames in order and, where samples are missing between them, how many."""
        for packet in self._packets():
            content = bytes(packet) if self.raw else b""
            if packet.pos is not None:
                self.read_to = packet.pos + packet.size
            if content and self._is_tag(packet, content):
                continue
            try:
                frames = packet.decode()
            except av.FFmpegError as error:
                _check_device(self.path, error)
                self.fault = self.fault or error.strerror
                self.missing += self._samples_of(packet, packet.size)
                self.last = bytes(packet) if self.name == "aac" else self.last
                continue
            if junk := len(content) - len(content.lstrip(b"\0")):  # which the decoder passes over without a word
                self.fault = self.fault or "zeros between frames"
                self.missing += self._samples_of(packet, junk)
            self.bytes += packet.size
            self.last = content or self.last
            for frame in frames:
                if frame.sample_rate != self.rate:
                    change = f"at {self.seconds:.2f} s, from {self.rate} to {frame.sample_rate} Hz"
                    self._lose_rest(f"sample rate changes: {change}")
                    return
                if gap := self._gap(frame):
                    yield gap
                    self.position += gap
                yield frame
                self.position += frame.samples

    def _packets(self) -> Iterator[Any]:
        """Yield the packets of the stream, the empty one that ends it too; read on behind errors."""
        for _ in range(TRIES):
            try:
                yield from self.container.demux(self.stream)
                return
            except av.FFmpegError as error:
                _check_device(self.path, error)
                self.fault = self.fault or error.strerror

    def _is_tag(self, packet: Any, content: bytes) -> bool:
        """Return whether a packet of an MP3 file is no audio; note where it shows that files were joined."""
        if packet.pos is not None and packet.pos < self.tag_end:
            return True
        tag = content.startswith(TAGS)
        if tag and content[:3] == b"ID3" and packet.pos is not None:
            self.tag_end = packet.pos + 10 + sum((byte & 0x7F) << 7 * (3 - at) for at, byte in enumerate(content[6:10]))
        xing = not any(content[6:13]) and any(name in content[:64] for name in (b"Xing", b"Info"))
        if self.position and (content[:3] == b"ID3" or xing):
            self._note_join()
        return tag

    def _note_join(self) -> None:
        self.joined = True
        self.recording.remarks.setdefault(f"joined: another recording begins at {self.seconds:.1f} s", self.position)

    def _samples_of(self, packet: Any, size: int) -> float:
        """Return how many samples a packet that failed has: by its bytes where only they tell, else as it says."""
        if self.raw and self.bytes:
            return size * self.position / self.bytes
        return float((packet.duration or 0) * packet.time_base * self.rate)

    def _gap(self, frame: av.AudioFrame) -> int:
        """Return how many samples are missing before a frame, and note why: by its time stamp, or by what failed."""
        ahead = self.missing
        if frame.pts is not None and not self.raw:
            if self.base is None:
                self.unit = float(frame.time_base * self.rate)
                self.base = frame.pts * self.unit
                if self.name == "flac":  # whose first frame may be missing
                    self.base = float((self.stream.start_time or 0) * self.stream.time_base * self.rate)
            stamp = frame.pts * self.unit
            jump = stamp - self.base - self.position
            if self.name in STAMPED and jump > self.stamp_error * self.rate:
                self.fault = self.fault or "frames are missing"
            if jump < -self.rate and self.name in JOINED:
                self._note_join()
            if self.fault and jump < MOST_MISSING_SECONDS * self.rate:
                ahead = max(ahead, jump)
            self.base = stamp - self.position - ahead if abs(jump) > self.rate else self.base
        if not self.fault:
            return 0
        gap, fault = max(0, round(ahead)), self.fault
        self.fault, self.missing = "", 0.0
        self.recording.lose(
            self.position, gap, f"decoding failed: at {self.seconds:.2f} s, {gap / self.rate:.2f} s are lost, {fault}"
        )
        return gap

    def _lose_rest(self, reason: str) -> None:
        """Note that nothing can be used from here on, or from the last fault on if nothing came since."""
        lost, start = self.recording.lost, float(self.position)
        while lost and lost[-1].stop >= self.position:
            start = min(start, lost.pop().start)
        lost.append(Lost(start, np.inf, reason))
        self.broken = True

    def _ends_in_a_frame(self) -> bool:
        """Return whether the last frame of MP3, or of bare AAC, has fewer bytes than its header says."""
        if self.raw:
            return bool(self.last) and not av.CodecContext.create("mp3", "r").parse(self.last)
        head = self.last[:6]
        return bool(self.fault and len(head) == 6) and ((head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5) > len(
            self.last
        )

    def end(self, stop: int | None, announced: float | None) -> None:
        """Note what is missing at the end of the file, by its header or by how it ends.

        Codecs count up to a few frames of their own delay, so that 4,096 samples or 0.1 s say nothing; FLAC has none.
        """
        if self.broken:
            return
        announced = None if self.joined else announced
        expected = None if announced is None else min(announced * self.rate, np.inf if stop is None else stop)
        ogg = ogg_fault(self.path)
        within = 0.5 if self.name == "flac" else max(4096, 0.1 * self.rate)
        if expected is not None and expected - self.position > within:
            self._lose_rest(f"truncated: the header announces {announced:.2f} s, {self.seconds:.2f} s can be decoded")
        elif ogg and ogg[0]:
            self._lose_rest(f"truncated: {ogg[1]}, {self.seconds:.2f} s can be decoded")
        elif ogg:
            self.recording.remarks[f"no end: {ogg[1]}"] = self.position
        elif announced is None and self._ends_in_a_frame():
            self._lose_rest(f"truncated: the file ends in the middle of a frame, {self.seconds:.2f} s can be decoded")
        elif announced is None and self.fault:
            self._lose_rest(f"decoding failed: at {self.seconds:.2f} s and behind it, {self.fault}")
        skipped = self.path.stat().st_size - self.read_to if self.name == "aac" else 0
        if skipped > 0 and self.bytes:
            lost = skipped * self.seconds / self.bytes
            text = f"bytes without audio: {skipped} of the file, {lost:.2f} s if they were damaged"
            self.recording.remarks[text] = self.position
        if size := bytes_of_next_wav(self.path):
            self.recording.remarks[f"joined: another WAV file of {size} bytes behind it is not read"] = self.position


def _blocks(decoder: _Decoder, first: int, stop: int | None, announced: float | None) -> Iterator[np.ndarray]:
    """Yield samples `first` to `stop` as blocks of about BLOCK_SECONDS; close the container in the end."""
    rate, recording = decoder.rate, decoder.recording
    silent, mixed = ((), _mono) if recording.channels == 1 else ((recording.channels,), _stereo)
    kept = start = 0  # samples of the block, and where it begins
    fifo = form = None
    with decoder.container:
        for frame in decoder.frames():
            samples = frame if isinstance(frame, int) else frame.samples
            position = decoder.position
            begin = max(0, first - position)
            end = samples if stop is None else min(samples, stop - position)
            if begin < end:
                this = None if isinstance(frame, int) else (frame.format.name, frame.layout.name)
                if kept and form != this:  # broadcasts change theirs midway
                    yield mixed(fifo.read(kept), start, recording)
                    kept = 0
                if this is None:
                    for at in range(begin, end, rate):
                        yield np.zeros((min(rate, end - at), *silent), np.float32)
                else:
                    if not kept:
                        fifo, form, start = av.AudioFifo(), this, position + begin
                    frame.pts = None  # of which the queue makes more than we do
                    fifo.write(frame)
                    if begin:
                        fifo.read(begin)
                    kept += end - begin
                    if kept >= BLOCK_SECONDS * rate:
                        yield mixed(fifo.read(kept), start, recording)
                        kept = 0
            if stop is not None and position + samples >= stop:
                break
        else:
            decoder.end(stop, announced)
        if kept:
            yield mixed(fifo.read(kept), start, recording)


def _mono(frame: av.AudioFrame, start: int, recording: Recording) -> np.ndarray:
    """Return the channels mixed down, float32 (n,), full scale 1; zeros for what is no number, which is lost.

    Two channels, and those without a layout, give their mean; more give what FFmpeg's downmix makes of their layout.
    Raises Rejected for samples of a type that has no place in NumPy. `start`: the sample of the recording.
    """
    try:
        values = frame.to_ndarray()
    except ValueError:  # integers of 64 bits
        raise Rejected(f"not decodable: samples of the format {frame.format.name}") from None
    count = frame.layout.nb_channels
    channels = values[:count] if frame.format.is_planar else values.reshape(-1, count).T
    weights = _weights(frame.layout.name, count) if count > 2 else None
    if weights is None and count > 2:
        recording.remarks.setdefault(f"channels without a layout: the mean of {count} is taken", start)
    mono = channels[0].astype(np.float32)
    if weights is None:
        for channel in channels[1:]:
            mono += channel
        if count > 1:
            mono /= count
        if values.dtype.kind == "u":
            mono -= 128
    else:
        middle = 128 if values.dtype.kind == "u" else 0
        mono[:] = 0
        for channel, weight in zip(channels, weights, strict=True):
            mono += (channel.astype(np.float32) - middle) * weight
    if values.dtype.kind != "f":
        mono *= 2.0 ** (1 - 8 * values.dtype.itemsize)
    if count > 1:
        middle = 128.0 if values.dtype.kind == "u" else 0.0
        unit = 1.0 if values.dtype.kind == "f" else 2.0 ** (1 - 8 * values.dtype.itemsize)
        step = max(1, round(PEAK_SECONDS * recording.sample_rate))
        for at in range(0, channels.shape[1], step):
            part = channels[:, at : at + step]
            peak = unit * max(float(part.max()) - middle, middle - float(part.min()))
            recording.peaks.append((start + at, peak))
    _lose_what_is_no_number(mono, start, recording)
    return mono


def _stereo(frame: av.AudioFrame, start: int, recording: Recording) -> np.ndarray:
    """Return float32 (n, 2), full scale 1, as `_mono` does of one channel.

    One channel gives both; of more than two FFmpeg's downmix is taken, or their mean where the layout has no names.
    """
    try:
        values = frame.to_ndarray()
    except ValueError:  # integers of 64 bits
        raise Rejected(f"not decodable: samples of the format {frame.format.name}") from None
    count, kind = frame.layout.nb_channels, values.dtype.kind
    channels = (values[:count] if frame.format.is_planar else values.reshape(-1, count).T).astype(np.float32)
    if kind == "u":
        channels -= 128
    if kind != "f":
        channels *= 2.0 ** (1 - 8 * values.dtype.itemsize)
    if count > 2:
        weights = _weights(frame.layout.name, count, "stereo")
        if weights is None:
            recording.remarks.setdefault(f"channels without a layout: the mean of {count} is taken", start)
            weights = np.full((count, 2), 1 / count, np.float32)
        channels = weights.T @ channels
    both = np.empty((channels.shape[1], 2), np.float32)
    both[:, 0], both[:, 1] = channels[0], channels[-1]
    _lose_what_is_no_number(both, start, recording)
    return both


def _lose_what_is_no_number(mixed: np.ndarray, start: int, recording: Recording) -> None:
    """Set what is NaN or infinite to zero, and note it as lost."""
    finite = np.isfinite(mixed)
    if finite.all():
        return
    bad = np.nonzero(~finite)[0]
    seconds = (start + bad[0]) / recording.sample_rate
    reason = f"samples that are no numbers: NaN or infinity, {len(bad)} from {seconds:.2f} s on"
    recording.lose(start + int(bad[0]), int(bad[-1] - bad[0]) + 1, reason)
    mixed[bad] = 0


@cache
def _weights(layout: str, channels: int, into: str = "mono") -> np.ndarray | None:
    """Return FFmpeg's weights of the channels in its downmix, float32, or None for a layout that has no names.

    To mono (channels,), to stereo (channels, 2). They are divided by their sum, as FFmpeg does for integers: full scale
    in all channels gives full scale.
    """
    if layout.endswith("channels"):  # FFmpeg would guess: the fourth of six microphones is no subwoofer
        return None
    try:
        one = av.AudioFrame.from_ndarray(np.eye(channels, dtype=np.float32).reshape(1, -1), format="flt", layout=layout)
        one.sample_rate = 48_000
        resampler = av.AudioResampler(format="flt", layout=into)
        mixed = np.concatenate(
            [frame.to_ndarray()[0] for frame in (*resampler.resample(one), *resampler.resample(None))]
        )
    except (av.FFmpegError, ValueError):
        return None
    weights = mixed if into == "mono" else mixed.reshape(channels, -1)
    return weights / max(1, weights.sum(axis=0).max())
