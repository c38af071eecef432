// Times the image encoder of native llama.cpp (libmtmd). bench/vision.ts compiles and calls it.
//   vision MMPROJ WIDTH HEIGHT THREADS ROUNDS
// BACKENDS: the folder with ggml's CPU backends. Prints the milliseconds of each round after a first
// one that is not timed, and the peak memory of the process in bytes, as JSON.
#include "clip.h"
#include "clip-impl.h"
#include "ggml-backend.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sys/resource.h>
#include <vector>

static void quiet(enum ggml_log_level level, const char * text, void *) {
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

int main(int argc, char ** argv) {
    const char * backends = getenv("BACKENDS");
    if (argc != 6 || !backends) {
        fputs("usage: BACKENDS=folder vision MMPROJ WIDTH HEIGHT THREADS ROUNDS\n", stderr);
        return 2;
    }
    ggml_log_set(quiet, nullptr);
    ggml_backend_load_all_from_path(backends);
    clip_context_params params = {};
    params.use_gpu = false;
    params.flash_attn_type = CLIP_FLASH_ATTN_TYPE_AUTO;
    params.image_min_tokens = params.image_max_tokens = -1;
    clip_ctx * clip = clip_init(argv[1], params).ctx_v;
    if (!clip) {
        fputs("the projector cannot be loaded\n", stderr);
        return 1;
    }
    clip_image_f32 image;
    image.set_size({ atoi(argv[2]), atoi(argv[3]) }, false, false);
    std::vector<float> out;
    printf("{\"ms\":[");
    for (int i = 0; i <= atoi(argv[5]); i++) {
        const auto begin = std::chrono::steady_clock::now();
        if (!clip_image_encode(clip, atoi(argv[4]), &image, out)) return 1;
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
        if (i > 0) printf("%s%.3f", i > 1 ? "," : "", took.count());
    }
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("],\"peakBytes\":%ld,\"tokens\":%d}\n", usage.ru_maxrss * 1024L, clip_n_output_tokens(clip, &image));
    clip_free(clip);
    return 0;
}
