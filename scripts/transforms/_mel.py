"""What transforms to log-mel spectrograms share."""

OPTIONS = {
    "bands": {"type": "integer", "minimum": 1, "default": 80},
    "window_ms": {"type": "number", "exclusiveMinimum": 0, "default": 25},
    "hop_ms": {"type": "number", "exclusiveMinimum": 0, "default": 10},
}


def log_mel(rate, options, device):
    """Return a function from audio (items, 1, samples) to float32 (items, 1, bands, frames)."""
    import torchaudio

    window, hop = (round(rate * options[name] / 1000) for name in ("window_ms", "hop_ms"))
    mel = torchaudio.transforms.MelSpectrogram(rate, n_fft=window, hop_length=hop, n_mels=options["bands"]).to(device)
    return lambda audio: mel(audio).clamp_min(1e-10).log()
