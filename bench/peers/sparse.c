/*
 * Time of native code for selected rows of a feed-forward, as in bench/sparse.ts: with 256-bit
 * vectors and prefetch instructions, which WebAssembly does not have.
 *
 *   sparse TYPE N_EMBD N_FF LAYERS THREADS ROUNDS BUNDLE SHARE...
 *
 * TYPE is q4_0 or q8_0. BUNDLE is 1 if the three rows of a neuron lie side by side. SHARE is the
 * fraction of rows selected.
 *
 * Prints a JSON object per share: medians of a layer's microseconds for only fetching rows, and for
 * also computing with them (two products with 8-bit activations, and a sum of rows times f32). Rows
 * are prefetched AHEAD of the row that is read. Between rounds it reads more memory than any cache
 * holds.
 */
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 32, LINE = 64, AHEAD = 8, MAX_THREADS = 64, MATRICES = 3 };
static const size_t OTHER_BYTES = (size_t) 256 << 20;

static int       is_q8, n_embd, n_ff, layers, threads, rounds, bundle, count;
static size_t    block_bytes, row_bytes;
static uint8_t * weights, * other;
static int     * active; /* [layers][count] */
static int8_t  * quants; /* activations of 8 bits, and the scale of each block */
static float   * scales, * gates;
static float   * times;
static int       computes;
static pthread_barrier_t all;
static volatile float    sink;

static double microseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double) t.tv_sec + 1e-3 * (double) t.tv_nsec;
}

static const uint8_t * row(int layer, int matrix, int neuron) {
    size_t i = bundle ? (size_t) neuron * MATRICES + matrix : (size_t) matrix * n_ff + neuron;
    return weights + ((size_t) layer * MATRICES * n_ff + i) * row_bytes;
}

static void prefetch(const uint8_t * p) {
    for (size_t i = 0; i < row_bytes; i += LINE) _mm_prefetch((const char *) p + i, _MM_HINT_T0);
}

static float scale_of(const uint8_t * block) {
    uint16_t half;
    memcpy(&half, block, 2);
    return _cvtsh_ss(half);
}

/* The 32 signed codes of a block. */
static __m256i codes_of(const uint8_t * block) {
    if (is_q8) return _mm256_loadu_si256((const __m256i *) (block + 2));
    __m128i v = _mm_loadu_si128((const __m128i *) (block + 2));
    __m256i both = _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(v, 4), v), _mm256_set1_epi8(15));
    return _mm256_sub_epi8(both, _mm256_set1_epi8(8));
}

static float product(const uint8_t * p) {
    __m256 sum = _mm256_setzero_ps();
    for (int b = 0; b < n_embd / BLOCK; b++, p += block_bytes) {
        __m256i w = codes_of(p), x = _mm256_loadu_si256((const __m256i *) (quants + BLOCK * b));
        __m256i pairs = _mm256_maddubs_epi16(_mm256_sign_epi8(w, w), _mm256_sign_epi8(x, w));
        __m256  s = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        sum = _mm256_fmadd_ps(s, _mm256_set1_ps(scale_of(p) * scales[b]), sum);
    }
    float lanes[8], total = 0;
    _mm256_storeu_ps(lanes, sum);
    for (int i = 0; i < 8; i++) total += lanes[i];
    return total;
}

static void add_row(const uint8_t * p, float gate, float * y) {
    for (int b = 0; b < n_embd / BLOCK; b++, p += block_bytes, y += BLOCK) {
        __m256  d = _mm256_set1_ps(gate * scale_of(p));
        __m256i w = codes_of(p);
        __m128i half[2] = { _mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1) };
        for (int i = 0; i < 4; i++) {
            __m128i eight = i & 1 ? _mm_srli_si128(half[i >> 1], 8) : half[i >> 1];
            __m256  v = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
            _mm256_storeu_ps(y + 8 * i, _mm256_fmadd_ps(v, d, _mm256_loadu_ps(y + 8 * i)));
        }
    }
}

/* Computes a thread's part of a layer's neurons, matrix by matrix. */
static float layer_of(int layer, int from, int to, float * y) {
    const int * neurons = active + (size_t) layer * count;
    float       sum = 0;
    for (int m = 0; m < MATRICES; m++)
        for (int i = from; i < to; i++) {
            int ahead = i + AHEAD;
            if (ahead < to) prefetch(row(layer, m, neurons[ahead]));
            else if (m + 1 < MATRICES && ahead - to < to - from) prefetch(row(layer, m + 1, neurons[from + ahead - to]));
            const uint8_t * p = row(layer, m, neurons[i]);
            if (!computes) for (size_t at = 0; at < row_bytes; at += LINE) sum += p[at];
            else if (m + 1 < MATRICES) sum += product(p);
            else add_row(p, gates[neurons[i]], y);
        }
    return sum;
}

static void * work(void * argument) {
    int     ith = *(int *) argument, from = count * ith / threads, to = count * (ith + 1) / threads;
    float * y = calloc((size_t) n_embd, sizeof *y);
    for (int round = -1; round < rounds; round++) {
        float sum = 0;
        for (size_t i = OTHER_BYTES / threads * ith; i < OTHER_BYTES / threads * (ith + 1); i += LINE) sum += other[i];
        for (int layer = 0; layer < layers; layer++) {
            pthread_barrier_wait(&all);
            double start = microseconds();
            sum += layer_of(layer, from, to, y);
            pthread_barrier_wait(&all);
            if (ith == 0 && round >= 0) times[round * layers + layer] = (float) (microseconds() - start);
        }
        sink += sum + y[0];
    }
    free(y);
    return NULL;
}

static int ascending(const void * a, const void * b) {
    float d = *(const float *) a - *(const float *) b;
    return (d > 0) - (d < 0);
}

static float median_of(int with_products) {
    pthread_t t[MAX_THREADS];
    int       ith[MAX_THREADS];
    computes = with_products;
    pthread_barrier_init(&all, NULL, (unsigned) threads);
    for (int i = 0; i < threads; i++) ith[i] = i, pthread_create(&t[i], NULL, work, &ith[i]);
    for (int i = 0; i < threads; i++) pthread_join(t[i], NULL);
    pthread_barrier_destroy(&all);
    qsort(times, (size_t) rounds * layers, sizeof *times, ascending);
    return times[rounds * layers / 2];
}

static uint32_t random_bits(void) {
    static uint32_t state = 1;
    return (state = state * 1664525u + 1013904223u) >> 8;
}

static void choose(double share) {
    count = (int) (share * n_ff + 0.5);
    active = realloc(active, (size_t) layers * (size_t) count * sizeof *active);
    char * on = malloc((size_t) n_ff);
    for (int layer = 0; layer < layers; layer++) {
        memset(on, 0, (size_t) n_ff);
        for (int n = 0; n < count;) {
            int i = (int) (random_bits() % (uint32_t) n_ff);
            if (!on[i]) on[i] = 1, n++;
        }
        for (int i = 0, n = 0; i < n_ff; i++) if (on[i]) active[(size_t) layer * count + n++] = i;
    }
    free(on);
}

int main(int argc, char ** argv) {
    if (argc < 9) return fprintf(stderr, "usage: sparse TYPE N_EMBD N_FF LAYERS THREADS ROUNDS BUNDLE SHARE...\n"), 2;
    is_q8 = strcmp(argv[1], "q8_0") == 0;
    n_embd = atoi(argv[2]), n_ff = atoi(argv[3]), layers = atoi(argv[4]), threads = atoi(argv[5]), rounds = atoi(argv[6]), bundle = atoi(argv[7]);
    if (n_embd % BLOCK || threads < 1 || threads > MAX_THREADS) return fprintf(stderr, "sparse: expected rows of whole blocks and 1 to %d threads\n", MAX_THREADS), 2;
    block_bytes = is_q8 ? 34 : 18, row_bytes = block_bytes * (size_t) (n_embd / BLOCK);
    size_t bytes = (size_t) layers * MATRICES * n_ff * row_bytes;
    weights = malloc(bytes), other = malloc(OTHER_BYTES);
    quants = malloc((size_t) n_embd), scales = malloc(sizeof(float) * (size_t) (n_embd / BLOCK)), gates = malloc(sizeof(float) * (size_t) n_ff);
    times = malloc(sizeof(float) * (size_t) rounds * layers);
    memset(other, 1, OTHER_BYTES);
    for (size_t i = 0; i < bytes; i++) weights[i] = (uint8_t) random_bits();
    for (size_t i = 0; i < bytes; i += block_bytes) weights[i] = 0, weights[i + 1] = 0x20; /* a scale of 2^-7 */
    for (int i = 0; i < n_embd; i++) quants[i] = (int8_t) (random_bits() % 255 - 127);
    for (int i = 0; i < n_embd / BLOCK; i++) scales[i] = 0.01f;
    for (int i = 0; i < n_ff; i++) gates[i] = 1e-3f * (float) i;
    for (int i = 8; i < argc; i++) {
        choose(atof(argv[i]));
        float fetched = median_of(0), computed = median_of(1);
        printf("{\"share\":%s,\"fetched\":%.1f,\"computed\":%.1f}\n", argv[i], fetched, computed);
    }
    return 0;
}
