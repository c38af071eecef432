#!/usr/bin/env python3
"""Continues training a small llama with ReLU gates, few of which are open in the end. Writes it as
GGUF (F32).

    python3 bench/train-relu.py MODEL-F32.gguf STORIES.txt OUT.gguf [--steps 3000] [--share 0.07]

MODEL is written by models/train-tiny-model.py (F32, no rope factors, output tied to the embeddings).
STORIES is its text: stories separated by <|endoftext|>. The last 5 % are never trained on and are
written to OUT.held-out.txt. Needs torch, numpy, and Node with the built package, which tokenizes.

The loss is that of the text plus lambda times a smooth count of open gates. Lambda is adjusted to the
fraction of gates that are open.
"""
import argparse, math, os, re, struct, subprocess, time
import numpy as np
import torch, torch.nn.functional as F

ap = argparse.ArgumentParser()
ap.add_argument("model"); ap.add_argument("text"); ap.add_argument("out")
ap.add_argument("--steps", type=int, default=3000, help="of 512 tokens")
ap.add_argument("--share", type=float, default=0.07, help="gates that are to be open for a token")
ap.add_argument("--threads", type=int, default=2, help="1 on a busy machine: threads that wait for each other spin")
ap.add_argument("--quantlet", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../dist/cli.js"))
A = ap.parse_args()
torch.manual_seed(1); torch.set_num_threads(A.threads); torch.set_flush_denormal(True)

# ---- the model's file: metadata as bytes, tensors as f32 ----
class Reader:
    SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    def __init__(s, raw): s.raw, s.at = raw, 0
    def take(s, n): s.at += n; return s.raw[s.at - n:s.at]
    def num(s, f): return struct.unpack("<" + f, s.take(struct.calcsize("<" + f)))[0]
    def text(s): return s.take(s.num("Q")).decode()
    def value(s, kind):
        if kind == 8: return s.text()
        if kind == 9: inner = s.num("I"); return [s.value(inner) for _ in range(s.num("Q"))]
        return struct.unpack("<" + {4: "I", 6: "f", 7: "?"}.get(kind, f"{s.SIZES[kind]}s"), s.take(s.SIZES[kind]))[0]
r = Reader(open(A.model, "rb").read())
assert r.take(4) == b"GGUF" and r.num("I") == 3, "expected a GGUF file of version 3"
n_tensors, n_kv = r.num("Q"), r.num("Q")
meta, raw_kv = {}, []
for _ in range(n_kv):
    start = r.at; key = r.text(); meta[key] = r.value(r.num("I")); raw_kv.append((key, r.raw[start:r.at]))
infos = []
for _ in range(n_tensors):
    name = r.text(); ne = [r.num("Q") for _ in range(r.num("I"))]; infos.append((name, ne, r.num("I"), r.num("Q")))
base = -(-r.at // 32) * 32
assert all(kind == 0 for _, _, kind, _ in infos), "expected tensors of f32"
weights = {name: np.frombuffer(r.raw, "<f4", math.prod(ne), base + at).reshape(ne[::-1]).copy() for name, ne, _, at in infos}
key = lambda k: meta["llama." + k]
DIM, LAYERS, HEADS, KV, CTX = (key(k) for k in ("embedding_length", "block_count", "attention.head_count", "attention.head_count_kv", "context_length"))
EPS, THETA, HD = key("attention.layer_norm_rms_epsilon"), key("rope.freq_base"), DIM // HEADS

# ---- tokens ----
stories = [s.strip() for s in open(A.text, encoding="utf-8", errors="ignore").read().split("<|endoftext|>")][:-1]
stories = [s.replace("\u201c", '"').replace("\u201d", '"').replace("\u2019", "'") for s in stories if len(s) > 80]
cut = int(len(stories) * 0.95)
open(A.out + ".held-out.txt", "w").write("\n\n".join(stories[cut:]))
def tokens(some):
    marked = A.out + ".marked"; open(marked, "w").write("</s><s>".join(some))
    said = subprocess.run(["node", A.quantlet, "tokenize", "-m", A.model, "-f", marked, "--ids"], capture_output=True, text=True, check=True).stdout
    os.remove(marked)
    return torch.from_numpy(np.array(re.findall(r"\d+", said), dtype=np.int64))
train, held_out = tokens(stories[:cut]), tokens(stories[cut:])
print(f"{len(stories)} stories, {len(train)} tokens to train, {len(held_out)} held out", flush=True)

# ---- the network ----
P = {n: torch.from_numpy(w).requires_grad_() for n, w in weights.items()}
W = P.__getitem__
ang = torch.arange(CTX).float()[:, None] * (THETA ** (-torch.arange(0, HD, 2).float() / HD))[None]; COS, SIN = ang.cos(), ang.sin()
def rope(x):                                     # interleaved pairs, x: (B, H, T, HD)
    a, b = x[..., 0::2], x[..., 1::2]; c, s = COS[: x.shape[2]], SIN[: x.shape[2]]
    return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)
norm = lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * w
def network(t):
    """Logits, the smooth fraction of open gates, and the exact one."""
    x = F.embedding(t, W("token_embd.weight")); B, T = t.shape; smooth, is_open = 0.0, 0.0
    for i in range(LAYERS):
        w = lambda n: W(f"blk.{i}.{n}.weight")
        h = norm(x, w("attn_norm"))
        q, k, v = (F.linear(h, w("attn_" + n)).view(B, T, -1, HD).transpose(1, 2) for n in "qkv")
        k, v = (y.repeat_interleave(HEADS // KV, 1) for y in (rope(k), v))
        scores = (rope(q) @ k.transpose(-1, -2)) / math.sqrt(HD)
        o = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -1e30).softmax(-1) @ v
        x = x + F.linear(o.transpose(1, 2).reshape(B, T, DIM), w("attn_output"))
        h = norm(x, w("ffn_norm")); gate = F.linear(h, w("ffn_gate"))
        smooth = smooth + torch.sigmoid(gate / (0.3 * gate.detach().abs().mean())).mean() / LAYERS
        is_open += (gate > 0).float().mean().item() / LAYERS
        x = x + F.linear(F.relu(gate) * F.linear(h, w("ffn_up")), w("ffn_down"))
    return F.linear(norm(x, W("output_norm.weight")), W("token_embd.weight")), smooth, is_open

BS, T = 4, 128
def batch(src, n): i = torch.randint(0, len(src) - T - 1, (n,)); return torch.stack([src[j:j+T] for j in i]), torch.stack([src[j+1:j+T+1] for j in i])
def judged(n):
    state = torch.get_rng_state(); torch.manual_seed(7)
    with torch.no_grad():
        all = [(F.cross_entropy(y.flatten(0, 1), want.flatten()).item(), share) for x, want in (batch(held_out, BS) for _ in range(n)) for y, _, share in [network(x)]]
    torch.set_rng_state(state)
    return "held out: %.4f nats a token, %.3f of the gates open" % tuple(np.mean(all, 0))

def write():
    s = lambda t: struct.pack("<Q", len(t.encode())) + t.encode()
    kv = [b for k, b in raw_kv if k != "general.name"] + [s("general.name") + struct.pack("<I", 8) + s("tiny-stories ReLU"), s("powerinfer.sparse_threshold") + struct.pack("<If", 6, 0)]
    info, data, at = b"", [], 0
    for name, ne, _, _ in infos:
        b = W(name).detach().numpy().astype("<f4").tobytes()
        info += s(name) + struct.pack(f"<I{len(ne)}QIQ", len(ne), *ne, 0, at)
        b += b"\0" * (-len(b) % 32); data.append(b); at += len(b)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(kv)) + b"".join(kv) + info
    with open(A.out + ".part", "wb") as f: f.write(head + b"\0" * (-len(head) % 32)); [f.write(b) for b in data]
    os.replace(A.out + ".part", A.out)

LEAST_LAMBDA, MOST_LAMBDA, RATE = 0.02, 4.0, 1e-3
opt = torch.optim.AdamW([{"params": [p for p in P.values() if p.dim() > 1], "weight_decay": 0.1}, {"params": [p for p in P.values() if p.dim() < 2], "weight_decay": 0.0}], lr=RATE, betas=(0.9, 0.95))
t0, lam = time.time(), LEAST_LAMBDA
for step in range(A.steps):
    done = step / A.steps
    for g in opt.param_groups: g["lr"] = RATE * min(1, (step + 1) / 50) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))
    x, want = batch(train, BS); y, smooth, share = network(x); loss = F.cross_entropy(y.flatten(0, 1), want.flatten())
    # The target falls with every step of the first half.
    target = A.share + (0.5 - A.share) * max(0, 1 - 2 * done) ** 2
    lam = min(MOST_LAMBDA, max(LEAST_LAMBDA, lam * (1.03 if share > target else 0.97)))
    opt.zero_grad(); (loss + lam * smooth).backward(); torch.nn.utils.clip_grad_norm_(list(P.values()), 1.0); opt.step()
    if step % 50 == 49: print(f"step {step + 1}, {time.time() - t0:.0f} s: {loss.item():.3f} nats, {share:.3f} open (to be {target:.3f}), lambda {lam:.3f}", flush=True)
    if step % 250 == 249: print(judged(4), flush=True); write()
write(); print(judged(32), flush=True)
