/*
 * llama.cpp's own speed: seconds of llama_decode, without sampling and without JavaScript.
 *
 *   native MODEL BACKENDS THREADS REPETITIONS TEST...
 *
 * TEST is pp:TOKENS:DEPTH (one prompt) or tg:TOKENS:DEPTH (token by token). DEPTH tokens are in the
 * cache before the clock starts. BACKENDS is a folder of libggml-cpu-*.so, of which ggml selects the
 * best for this CPU. The first line of output names its features. Then comes a JSON object per
 * measurement.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ggml-backend.h"
#include "llama.h"

enum { MAX_TESTS = 32, BATCH = 512 };

struct test {
    char kind[3];
    int  tokens, depth;
};

static void errors_only(enum ggml_log_level level, const char * text, void * data) {
    (void) data;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static void die(const char * what) {
    fprintf(stderr, "native: %s\n", what);
    exit(1);
}

/* Appends n arbitrary tokens to a sequence of `past` tokens, at most `step` per call. */
static void append(struct llama_context * ctx, int n_vocab, int past, int n, int step) {
    llama_token ids[BATCH];
    for (int done = 0; done < n; done += step) {
        int count = n - done < step ? n - done : step;
        for (int i = 0; i < count; i++) ids[i] = (3 + 7 * (past + done + i)) % n_vocab;
        if (llama_decode(ctx, llama_batch_get_one(ids, count)) != 0) die("llama_decode failed");
    }
    llama_synchronize(ctx);
}

static double measure(struct llama_context * ctx, int n_vocab, const struct test * t) {
    llama_memory_clear(llama_get_memory(ctx), true);
    append(ctx, n_vocab, 0, t->depth, BATCH);
    double start = seconds();
    append(ctx, n_vocab, t->depth, t->tokens, strcmp(t->kind, "pp") == 0 ? BATCH : 1);
    return seconds() - start;
}

int main(int argc, char ** argv) {
    struct test tests[MAX_TESTS];
    int n_tests = argc - 5, n_ctx = BATCH; /* the context bounds the batch, and the warm-up needs some */
    if (n_tests < 1 || n_tests > MAX_TESTS) die("usage: native MODEL BACKENDS THREADS REPETITIONS TEST...");
    for (int i = 0; i < n_tests; i++) {
        struct test * t = &tests[i];
        if (sscanf(argv[5 + i], "%2[a-z]:%d:%d", t->kind, &t->tokens, &t->depth) != 3 || (strcmp(t->kind, "pp") && strcmp(t->kind, "tg"))) die("a test is pp:TOKENS:DEPTH or tg:TOKENS:DEPTH");
        if (n_ctx < t->tokens + t->depth) n_ctx = t->tokens + t->depth;
    }

    llama_log_set(errors_only, NULL);
    ggml_backend_load_all_from_path(argv[2]);
    llama_backend_init();
    struct llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    struct llama_model * model = llama_model_load_from_file(argv[1], model_params);
    if (model == NULL) die("the model could not be loaded");

    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t) n_ctx;
    params.n_batch = params.n_ubatch = BATCH;
    params.n_threads = params.n_threads_batch = atoi(argv[3]);
    params.no_perf = true;
    struct llama_context * ctx = llama_init_from_model(model, params);
    if (ctx == NULL) die("the context could not be made");

    printf("{\"system\":\"%s\"}\n", llama_print_system_info());
    int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    const struct test warm_up[] = { { "pp", 64, 0 }, { "tg", 8, 0 } };
    for (int i = 0; i < 2; i++) measure(ctx, n_vocab, &warm_up[i]);
    for (int r = 0; r < atoi(argv[4]); r++) {
        for (int i = 0; i < n_tests; i++) {
            const struct test * t = &tests[i];
            printf("{\"test\":\"%s\",\"rate\":%.3f}\n", argv[5 + i], t->tokens / measure(ctx, n_vocab, t));
            fflush(stdout);
        }
    }
    llama_free(ctx);
    llama_model_free(model);
    return 0;
}
