/* Times Open MPI's collectives on float32 buffers.
 *
 *   mpirun -n N openmpi_collectives [--bytes LIST] [--ops LIST] [--iterations K]
 *
 * Rank 0 prints one JSON row per (op, bytes). `bytes` is the whole unsharded
 * buffer: for all_gather and reduce_scatter all ranks' shards together, for
 * all_to_all what one rank sends to everybody. `seconds` is the median over
 * iterations of the slowest rank's time.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_BYTES "8,65536,1048576,67108864"
#define DEFAULT_OPS "all_reduce,reduce_scatter,all_gather,broadcast,all_to_all,barrier"

static int rank, ranks;

/* `full` and `other` hold `count` floats; a shard is `count / ranks` of them. */
typedef struct {
    float *full, *other;
    int count, shard;
} Buffers;

typedef struct {
    const char *name;
    int sharded; /* the buffer has to divide evenly between the ranks */
    void (*fill)(Buffers *);
    void (*run)(Buffers *);
    int (*correct)(const Buffers *);
} Op;

/* Small whole numbers, so that float sums are exact in any order. */
static float value(int from, int to, int i) { return (float)(100 * from + 10 * to + i % 7); }

static float sum_of_values(int i) {
    float sum = 0;
    for (int r = 0; r < ranks; r++) sum += value(r, 0, i);
    return sum;
}

static void fill_own(Buffers *b) {
    for (int i = 0; i < b->count; i++) b->full[i] = value(rank, 0, i);
}

static void run_all_reduce(Buffers *b) {
    MPI_Allreduce(MPI_IN_PLACE, b->full, b->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int correct_all_reduce(const Buffers *b) {
    for (int i = 0; i < b->count; i++)
        if (b->full[i] != sum_of_values(i)) return 0;
    return 1;
}

static void run_reduce_scatter(Buffers *b) {
    MPI_Reduce_scatter_block(b->full, b->other, b->shard, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int correct_reduce_scatter(const Buffers *b) {
    for (int i = 0; i < b->shard; i++)
        if (b->other[i] != sum_of_values(rank * b->shard + i)) return 0;
    return 1;
}

static void fill_own_shard(Buffers *b) {
    for (int i = 0; i < b->count; i++)
        b->full[i] = i / b->shard == rank ? value(rank, 0, i) : -1;
}

static void run_all_gather(Buffers *b) {
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b->full, b->shard, MPI_FLOAT, MPI_COMM_WORLD);
}

static int correct_all_gather(const Buffers *b) {
    for (int i = 0; i < b->count; i++)
        if (b->full[i] != value(i / b->shard, 0, i)) return 0;
    return 1;
}

static void run_broadcast(Buffers *b) { MPI_Bcast(b->full, b->count, MPI_FLOAT, 0, MPI_COMM_WORLD); }

static int correct_broadcast(const Buffers *b) {
    for (int i = 0; i < b->count; i++)
        if (b->full[i] != value(0, 0, i)) return 0;
    return 1;
}

static void fill_all_to_all(Buffers *b) {
    for (int i = 0; i < b->count; i++) b->full[i] = value(rank, i / b->shard, i % b->shard);
}

static void run_all_to_all(Buffers *b) {
    MPI_Alltoall(b->full, b->shard, MPI_FLOAT, b->other, b->shard, MPI_FLOAT, MPI_COMM_WORLD);
}

static int correct_all_to_all(const Buffers *b) {
    for (int i = 0; i < b->count; i++)
        if (b->other[i] != value(i / b->shard, rank, i % b->shard)) return 0;
    return 1;
}

static void run_barrier(Buffers *b) {
    (void)b;
    MPI_Barrier(MPI_COMM_WORLD);
}

static int correct_always(const Buffers *b) {
    (void)b;
    return 1;
}

static const Op ops[] = {
    {"all_reduce", 0, fill_own, run_all_reduce, correct_all_reduce},
    {"reduce_scatter", 1, fill_own, run_reduce_scatter, correct_reduce_scatter},
    {"all_gather", 1, fill_own_shard, run_all_gather, correct_all_gather},
    {"broadcast", 0, fill_own, run_broadcast, correct_broadcast},
    {"all_to_all", 1, fill_all_to_all, run_all_to_all, correct_all_to_all},
    {"barrier", 0, fill_own, run_barrier, correct_always},
};

static void fail(const char *what, const char *detail) {
    fprintf(stderr, "openmpi_collectives: rank %d: %s%s\n", rank, what, detail);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Enough repetitions for a steady median, few enough for large buffers. */
static int default_iterations(long bytes) {
    long wanted = bytes ? (256L << 20) / bytes : 1000;
    return wanted < 10 ? 10 : wanted > 1000 ? 1000 : (int)wanted;
}

static void *allocate(size_t size) {
    void *memory = malloc(size);
    if (!memory) fail("out of memory", "");
    return memory;
}

static void measure(const Op *op, long bytes, int iterations) {
    /* A buffer too small to divide gets rounded up; the row keeps the size
     * asked for, so that rows of different programs still match. */
    long unit = (op->sharded ? ranks : 1) * (long)sizeof(float);
    long padded = (bytes + unit - 1) / unit * unit;
    int warmup = iterations / 10 + 2;
    Buffers b;
    b.count = (int)(padded / (long)sizeof(float));
    b.shard = b.count / ranks;
    b.full = allocate((size_t)padded + 1);
    b.other = allocate((size_t)padded + 1);
    double *times = allocate((size_t)iterations * sizeof *times);

    op->fill(&b);
    memset(b.other, 0xff, (size_t)padded);
    op->run(&b);
    if (!op->correct(&b)) fail("wrong result of ", op->name);

    /* Zeros stay zeros however often they are summed in place. */
    memset(b.full, 0, (size_t)padded);
    for (int i = -warmup; i < iterations; i++) {
        /* All start together, so nobody's time includes waiting for a late rank. */
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        op->run(&b);
        double elapsed = MPI_Wtime() - start;
        if (i >= 0) times[i] = elapsed;
    }
    MPI_Reduce(rank ? times : MPI_IN_PLACE, times, iterations, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        qsort(times, (size_t)iterations, sizeof *times, by_value);
        double seconds = (times[(iterations - 1) / 2] + times[iterations / 2]) / 2;
        printf("{\"backend\":\"openmpi\",\"op\":\"%s\",\"ranks\":%d,\"bytes\":%ld,"
               "\"seconds\":%.9g,\"gigabytes_per_second\":%.6g}\n",
               op->name, ranks, bytes, seconds, (double)bytes / seconds / 1e9);
        fflush(stdout);
    }
    free(times);
    free(b.other);
    free(b.full);
}

static const Op *find_op(const char *name) {
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i].name, name)) return &ops[i];
    fail("unknown op ", name);
    return NULL;
}

static long parse_bytes(const char *text) {
    char *end;
    long bytes = strtol(text, &end, 10);
    if (*end || bytes < (long)sizeof(float) || bytes > 1L << 32) fail("bad size ", text);
    return bytes;
}

int main(int argc, char **argv) {
    char *sizes = strdup(DEFAULT_BYTES), *names = strdup(DEFAULT_OPS);
    int iterations = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) fail("missing value of ", argv[i]);
        if (!strcmp(argv[i], "--bytes")) sizes = argv[i + 1];
        else if (!strcmp(argv[i], "--ops")) names = argv[i + 1];
        else if (!strcmp(argv[i], "--iterations")) iterations = atoi(argv[i + 1]);
        else fail("unknown option ", argv[i]);
    }
    char *next_op, *next_size;
    for (char *name = strtok_r(names, ",", &next_op); name; name = strtok_r(NULL, ",", &next_op)) {
        const Op *op = find_op(name);
        if (op->run == run_barrier) { /* has no size */
            measure(op, 0, iterations > 0 ? iterations : default_iterations(0));
            continue;
        }
        char *list = strdup(sizes);
        for (char *size = strtok_r(list, ",", &next_size); size; size = strtok_r(NULL, ",", &next_size)) {
            long bytes = parse_bytes(size);
            measure(op, bytes, iterations > 0 ? iterations : default_iterations(bytes));
        }
        free(list);
    }
    MPI_Finalize();
    return 0;
}
