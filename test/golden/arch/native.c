// Prints native llama.cpp's answers for a golden model as a JSON object. golden.mjs calls it.
//
//   native MODEL N_CTX logits IDS TEXT CACHE [ADAPTER SCALE]
//   native MODEL N_CTX POOLING IDS TEXT CACHE [ADAPTER SCALE]
//
// The first form prints the logits of every position (in one batch, and token by token) and 32
// greedy tokens. IDS are comma separated. If an encoder reads the prompt, it reads IDS, and logits
// are those of a decoder that is fed its start token and IDS; greedy tokens follow the start token.
//
// The second form prints the pooled output, not normalised. POOLING is llama.h's number: 1 mean,
// 2 cls, 3 last, 4 rank.
//
// CACHE f32: F32 KV cache, no flash attention. CACHE K/V: a KV cache of these types (f16/f16,
// q5_1/iq4_nl) and flash attention. ADAPTER SCALE: with a LoRA adapter applied.
//
// Environment: YARN=ext,attn,fast,slow, as the --yarn-* flags (negative: the model's value);
// BACKENDS=folder with libggml-cpu-*.so. One thread, no repacking, full-size window cache.
#include "ggml-backend.h"
#include "llama.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { MAX = 256, GREEDY = 32 };
static void quiet(enum ggml_log_level level, const char *text, void *user) { (void)user; if (level >= GGML_LOG_LEVEL_ERROR) fputs(text, stderr); }
static void fail(const char *what) { fprintf(stderr, "native: %s failed\n", what); exit(1); }
static void row(const float *x, int n) { putchar('['); for (int i = 0; i < n; i++) printf("%s%.9g", i ? "," : "", x[i]); putchar(']'); }
static void ids(const char *key, const llama_token *t, int n) { printf("\"%s\":[", key); for (int i = 0; i < n; i++) printf("%s%d", i ? "," : "", t[i]); putchar(']'); }
static void feed(struct llama_context *x, const llama_token *t, int n, int at) {
  struct llama_batch b = llama_batch_init(n, 0, 1);
  b.n_tokens = n;
  for (int i = 0; i < n; i++) { b.token[i] = t[i]; b.pos[i] = at + i; b.n_seq_id[i] = 1; b.seq_id[i][0] = 0; b.logits[i] = 1; }
  if (llama_decode(x, b)) fail("llama_decode");
  llama_batch_free(b);
}
static void encode(struct llama_context *x, llama_token *t, int n) { if (llama_encode(x, llama_batch_get_one(t, n))) fail("llama_encode"); }
static enum ggml_type type_of(const char *name, size_t n) {
  for (int i = 0; i < GGML_TYPE_COUNT; i++) { const char *is = ggml_type_name(i); if (is && strlen(is) == n && !strncmp(is, name, n)) return i; }
  fail("finding the cache's type"); return 0;
}
int main(int c, char **v) {
  if (c != 7 && c != 9) fail("reading the arguments");
  int pooling = strcmp(v[3], "logits") ? atoi(v[3]) : 0, n = 0;
  llama_token t[MAX + 1];
  for (char *p = strtok(v[4], ","); p && n < MAX; p = strtok(NULL, ",")) t[n++] = atoi(p);
  llama_log_set(quiet, 0); ggml_backend_load_all_from_path(getenv("BACKENDS")); llama_backend_init();
  struct llama_model_params mp = llama_model_default_params();
  mp.n_gpu_layers = 0; mp.use_extra_bufts = false;
  struct llama_model *m = llama_model_load_from_file(v[1], mp);
  if (!m) fail("loading the model");
  const struct llama_vocab *vocab = llama_model_get_vocab(m);
  struct llama_context_params cp = llama_context_default_params();
  cp.n_ctx = atoi(v[2]); cp.n_batch = cp.n_ubatch = MAX; cp.n_threads = cp.n_threads_batch = 1; cp.swa_full = true;
  const char *slash = strchr(v[6], '/');
  cp.type_k = type_of(v[6], slash ? (size_t)(slash - v[6]) : strlen(v[6])); cp.type_v = slash ? type_of(slash + 1, strlen(slash + 1)) : cp.type_k;
  cp.flash_attn_type = slash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  if (getenv("YARN") && sscanf(getenv("YARN"), "%f,%f,%f,%f", &cp.yarn_ext_factor, &cp.yarn_attn_factor, &cp.yarn_beta_fast, &cp.yarn_beta_slow) != 4) fail("reading YARN");
  if (pooling) { cp.embeddings = true; cp.pooling_type = pooling; }
  struct llama_context *x = llama_init_from_model(m, cp);
  if (!x) fail("making the context");
  if (c == 9) {
    struct llama_adapter_lora *lora = llama_adapter_lora_init(m, v[7]);
    float scale = atof(v[8]);
    if (!lora || llama_set_adapters_lora(x, &lora, 1, &scale)) fail("applying the adapter");
  }
  llama_token text[MAX];
  int words = llama_tokenize(vocab, v[5], strlen(v[5]), text, MAX, true, false), n_vocab = llama_vocab_n_tokens(vocab);
  if (words < 0) fail("llama_tokenize");
  putchar('{'); ids("text_ids", text, words); printf(",\"n_ctx\":%d", llama_n_ctx(x));
  bool reads = llama_model_has_encoder(m) && llama_model_has_decoder(m);
  if (reads) {
    encode(x, t, n);
    memmove(t + 1, t, n++ * sizeof *t); t[0] = llama_model_decoder_start_token(m);
  }
  // llama_decode would hide later tokens from a token of T5's encoder.
  if (llama_model_has_decoder(m)) feed(x, t, n, 0); else encode(x, t, n);
  if (pooling) {
    const float *e = llama_get_embeddings_seq(x, 0);
    if (!e) fail("pooling");
    printf(",\"embedding\":"); row(e, pooling == LLAMA_POOLING_TYPE_RANK ? (int)llama_model_n_cls_out(m) : llama_model_n_embd(m));
  } else {
    llama_token made[GREEDY]; float margin[GREEDY];
    printf(",\"batch\":[");
    for (int i = 0; i < n; i++) { if (i) putchar(','); row(llama_get_logits_ith(x, i), n_vocab); }
    if (reads) { llama_memory_clear(llama_get_memory(x), true); feed(x, t, 1, 0); }
    for (int g = 0; g < GREEDY; g++) { // the last requested row predicts the next token
      const float *l = llama_get_logits_ith(x, -1); int best = 0; float second = -1e30f;
      for (int i = 1; i < n_vocab; i++) if (l[i] > l[best]) best = i;
      for (int i = 0; i < n_vocab; i++) if (i != best && l[i] > second) second = l[i];
      made[g] = best; margin[g] = l[best] - second;
      feed(x, made + g, 1, (reads ? 1 : n) + g);
    }
    printf("],\"single\":["); llama_memory_clear(llama_get_memory(x), true);
    for (int i = 0; i < n; i++) { feed(x, t + i, 1, i); if (i) putchar(','); row(llama_get_logits_ith(x, -1), n_vocab); }
    printf("],"); ids("greedy", made, GREEDY); printf(",\"margins\":"); row(margin, GREEDY);
  }
  puts("}");
  return 0;
}
