/**
 * Flags of llama.cpp's tools that have no effect here. With them, a llama.cpp command line either
 * runs or is refused with a reason.
 *
 * Names and arity are those of common/arg.cpp and the tools' own parsers in llama.cpp v0.5.0. Flags
 * that have an effect are in flags.ts, which is searched first.
 */

/** A flag of llama.cpp that is known but has no effect. */
export interface LlamaFlag {
  /** With dashes, in llama.cpp's order. */
  readonly spellings: readonly string[];
  /** Names of the values that follow, one word each. Brackets: the value is optional. */
  readonly values: readonly string[];
  /** Commands that know the flag; undefined: every command that replaces a tool of llama.cpp. */
  readonly commands?: readonly string[];
  /** Accepted without effect, or refused. */
  readonly way: 'ignored' | 'refused';
  /** The reason why it has no effect, or what to do instead. */
  readonly why: string;
}

/** Words accepted as an optional value, and their meaning. */
export const SWITCH_WORDS: { readonly [word: string]: 'on' | 'off' | 'auto' } = {
  on: 'on',
  enabled: 'on',
  true: 'on',
  '1': 'on',
  off: 'off',
  disabled: 'off',
  false: 'off',
  '0': 'off',
  auto: 'auto',
  '-1': 'auto',
};

/** Parses rows of the form `[COMMAND,...:] SPELLING ... [VALUE ...]`. */
const rows = (way: LlamaFlag['way'], why: string, ...all: string[]): LlamaFlag[] =>
  all.map((row) => {
    const [, commands, rest] = /^(?:([\w,-]+): )?(.*)$/.exec(row)!;
    const words = rest.split(' ');
    return {
      spellings: words.filter((word) => word.startsWith('-')),
      values: words.filter((word) => !word.startsWith('-')),
      ...(commands === undefined ? {} : { commands: commands.split(',') }),
      way,
      why,
    };
  });
const ignored = (why: string, ...all: string[]): LlamaFlag[] => rows('ignored', why, ...all);
const refused = (instead: string, ...all: string[]): LlamaFlag[] => rows('refused', instead, ...all);

export const LLAMA_FLAGS: readonly LlamaFlag[] = [
  ...ignored(
    'models run on the CPU; there is no other device',
    'bench: -nkvo --no-kv-offload 0|1',
    'bench: -nopo --no-op-offload 0|1',
    'bench: --no-host 0|1',
    'bench: -rpc --rpc SERVERS',
    '-ngl --gpu-layers --n-gpu-layers N',
    '-sm --split-mode MODE',
    '-ts --tensor-split N0,N1,...',
    '-mg --main-gpu N',
    '-dev --device DEVICES',
    '-ot --override-tensor PATTERN=TYPE,...',
    '-kvo --kv-offload -nkvo --no-kv-offload',
    '--op-offload --no-op-offload',
    '--no-host',
    '-cmoe --cpu-moe',
    '-ncmoe --n-cpu-moe N',
    '-ncffn --n-cpu-ffn N',
    '-fit --fit [on|off]',
    '-fitt --fit-target MiB',
    '-fitc --fit-ctx N',
    '-bs --backend-sampling',
    '--mmproj-offload --no-mmproj-offload',
    '-mmdev --mmproj-device DEVICE',
    '--spec-draft-ngl -ngld --gpu-layers-draft --n-gpu-layers-draft N',
    '--spec-draft-device -devd --device-draft DEVICES',
    '--spec-draft-override-tensor -otd --override-tensor-draft PATTERN=TYPE,...',
    '--spec-draft-cpu-moe -cmoed --cpu-moe-draft',
    '--spec-draft-n-cpu-moe --spec-draft-ncmoe -ncmoed --n-cpu-moe-draft N',
    '--spec-draft-backend-sampling --no-spec-draft-backend-sampling',
  ),
  ...ignored(
    'attention is always computed block by block, without a matrix of scores',
    'bench: -fa --flash-attn on|off|auto,...',
    '-fa --flash-attn [on|off|auto]',
  ),
  ...ignored(
    'weights are read into memory once and packed there',
    'bench: -mmp --mmap 0|1,...',
    '--mmap --no-mmap',
    '--mlock',
    '-dio --direct-io -ndio --no-direct-io',
    '-lm --load-mode MODE',
    '-lzm --lazy-mode MODE',
    '--repack -nr --no-repack',
    '--check-tensors',
  ),
  ...ignored(
    'the operating system places threads, and threads without work sleep',
    '--numa TYPE',
    '-C --cpu-mask MASK',
    '-Cr --cpu-range LO-HI',
    '--cpu-strict 0|1',
    '--prio N',
    '--poll 0...100',
    '-Cb --cpu-mask-batch MASK',
    '-Crb --cpu-range-batch LO-HI',
    '--cpu-strict-batch 0|1',
    '--prio-batch N',
    '--poll-batch 0|1',
    '--spec-draft-cpu-mask -Cd --cpu-mask-draft MASK',
    '--spec-draft-cpu-range -Crd --cpu-range-draft LO-HI',
    '--spec-draft-cpu-strict --cpu-strict-draft 0|1',
    '--spec-draft-prio --prio-draft N',
    '--spec-draft-poll --poll-draft 0|1',
    '--spec-draft-cpu-mask-batch -Cbd --cpu-mask-batch-draft MASK',
    '--spec-draft-cpu-strict-batch --cpu-strict-batch-draft 0|1',
    '--spec-draft-prio-batch --prio-batch-draft N',
    '--spec-draft-poll-batch --poll-batch-draft 0|1',
    '--spec-draft-threads-batch -tbd --threads-batch-draft N',
    '--threads-http N',
  ),
  ...ignored(
    'each sequence has a cache of its own and reuses what the next prompt shares',
    '-dt --defrag-thold N',
    '--swa-full',
    '-kvu --kv-unified -no-kvu --no-kv-unified',
    '--kv-unified-per-slot N',
    '-cram --cache-ram N',
    '--cache-idle-slots --no-cache-idle-slots',
    '-sps --slot-prompt-similarity X',
    '--cache-prompt',
    '--cache-reuse N',
  ),
  ...ignored('requests always share steps', '-cb --cont-batching -nocb --no-cont-batching'),
  ...ignored(
    'there is no log apart from a few lines on stderr',
    '--log-colors [on|off|auto]',
    '-lv --verbosity --log-verbosity N',
    '--log-prefix --no-log-prefix',
    '--log-timestamps --no-log-timestamps',
    '--no-log-jsonl',
  ),
  ...ignored('chat templates are always Jinja', '--jinja --no-jinja'),
  ...ignored('the terminal shows what was typed', 'chat: --display-prompt --no-display-prompt'),
  ...ignored('the system message and the newest turns stay', 'chat: --keep N'),
  ...ignored('there is one model and one conversation at a time', 'run,chat: -np --parallel N'),
  ...ignored('the page is always served', 'serve: --ui --webui'),
  ...ignored('there is nothing to turn off', '--models-autoload --no-models-autoload'),
  ...ignored('the terminal is read and written as it is', '--simple-io'),
  ...ignored('a conversation has it; a prompt has as many lines as it has', 'run: -mli --multiline-input'),
  ...ignored('a bar always shows the progress', 'bench: --progress'),
  ...ignored('a few rows are kept in memory at a time', 'quantize: --max-buffer-size MiB'),
  ...ignored('the vocabulary alone is read', 'tokenize: --parse-special'),

  ...refused('images are in requests and on the command line, each read on its own', '--mtmd-batch-max-tokens N'),
  ...refused('quantlet reads no films', '--video FILE', '--video-fps N', '--video-timestamp-interval N', '--video-ffmpeg-dir DIR'),
  ...refused('models run on this machine only; start quantlet on the other one', '--rpc SERVERS'),
  ...refused('models run on the CPU; there are no devices to list', '--list-devices'),
  ...refused('downloaded models are in the folder that QUANTLET_CACHE names', '-cl --cache-list'),
  ...refused('use quantlet completion bash', '--completion-bash'),
  ...refused(
    'name a repository of the Hugging Face hub with -hf',
    '-dr --docker-repo REPO',
    '--embd-gemma-default',
    '--vision-gemma-4b-default',
    '--vision-gemma-12b-default',
    '--fim-qwen-1.5b-default',
    '--fim-qwen-3b-default',
    '--fim-qwen-7b-default',
    '--fim-qwen-7b-spec',
    '--fim-qwen-14b-spec',
    '--fim-qwen-30b-default',
    '--gpt-oss-20b-default',
    '--gpt-oss-120b-default',
  ),
  ...refused(
    'choose how to draft with --spec-type',
    '--spec-default',
    '--spec-synth-len L',
    '--spec-synth-rates P0,P1,...',
    '--spec-draft-p-split --draft-p-split P',
    '--spec-ngram-map-k-size-n N',
    '--spec-ngram-map-k-size-m N',
    '--spec-ngram-map-k-min-hits N',
    '--spec-ngram-map-k4v-size-n N',
    '--spec-ngram-map-k4v-size-m N',
    '--spec-ngram-map-k4v-min-hits N',
    '-lcs --lookup-cache-static FILE',
    '-lcd --lookup-cache-dynamic FILE',
  ),
  ...refused('llama.cpp removed it too; use --spec-draft-n-max or --spec-ngram-mod-n-max', '--draft --draft-n --draft-max N'),
  ...refused('llama.cpp removed it too; use --spec-draft-n-min or --spec-ngram-mod-n-min', '--draft-min --draft-n-min N'),
  ...refused('llama.cpp removed it too; use --spec-ngram-simple-size-n or --spec-ngram-mod-n-match', '--spec-ngram-size-n N'),
  ...refused('llama.cpp removed it too; use --spec-ngram-simple-size-m', '--spec-ngram-size-m N'),
  ...refused('llama.cpp removed it too; use --spec-ngram-simple-min-hits', '--spec-ngram-min-hits N'),
  ...refused(
    'control vectors cannot be applied; LoRA adapters can, with --lora',
    '--control-vector FILE',
    '--control-vector-scaled FILE:SCALE,...',
    '--control-vector-layer-range START END',
  ),
  ...refused('use one of the other samplers', '--adaptive-target N', '--adaptive-decay N'),
  ...refused('a smaller context or --rope-scale fits long texts', '-gan --grp-attn-n N', '-gaw --grp-attn-w N'),
  ...refused('redirect stderr to a file: 2> FILE', '--log-file FILE', '--log-jsonl', '--log-prompts-dir DIR'),
  ...refused('give the text with -f', '-bf --binary-file FILE'),
  ...refused('quantlet tokenize shows the tokens of a text', '--verbose-prompt'),
  ...refused('--json counts the tokens', '-ptc --print-token-count N'),
  ...refused(
    'the chat template decides what surrounds a message; see --chat-template-file',
    '--in-prefix-bos',
    '--in-prefix TEXT',
    '--in-suffix TEXT',
  ),
  ...refused('redirect the output: quantlet chat ... > FILE', 'chat: -o --output --output-file FILE'),
  ...refused('chat loads its own model; use another client to talk to a server', '--server-base URL'),
  ...refused('--chat-template-kwargs gives the template what it asks for', '--reasoning-preserve --no-reasoning-preserve'),
  ...refused('--reasoning-format none leaves the answer as it came', '--skip-chat-parsing --no-skip-chat-parsing'),
  ...refused("the model's file says which attention it was trained with", '--attention TYPE'),
  ...refused(
    'perplexity measures with -f and compares with --kl-divergence',
    '--hellaswag',
    '--hellaswag-tasks N',
    '--winogrande',
    '--winogrande-tasks N',
    '--multiple-choice',
    '--multiple-choice-tasks N',
    '--ppl-stride N',
    '--ppl-output-type 0|1',
  ),
  ...refused('llama-imatrix --show-statistics --in-file FILE reads the files that quantlet writes', 'imatrix: --show-statistics'),
  ...refused('bench times models that generate text', 'bench: -embd --embeddings 0|1'),
  ...refused('redirect the output; -o chooses its format', 'bench: -oe --output-err FORMAT'),
  ...refused('delete the parts once the model is whole', 'gguf-split: --delete-splits'),
  ...refused('use --sha256', 'gguf-hash: --xxh64'),
  ...refused('keep the layers, or prune with llama-quantize', 'quantize: --prune-layers L0,L1,...'),
  ...refused('the copy is one file; split it with quantlet gguf-split', 'quantize: --keep-split'),

  ...refused(
    'send it with the requests, or put a proxy in front',
    '--reuse-port',
    '--cors-methods METHODS',
    '--cors-headers HEADERS',
    '--cors-credentials --no-cors-credentials',
    '--no-cache-prompt',
    '--tags TEXT',
  ),
  ...refused(
    'the page at / keeps its own settings, and tools run in the client',
    '--ui-config --webui-config JSON',
    '--ui-config-file --webui-config-file FILE',
    '--ui-mcp-proxy --webui-mcp-proxy --no-ui-mcp-proxy --no-webui-mcp-proxy',
    '--tools TOOL1,TOOL2,...',
    '--tools-runtime OPTION',
    '--mcp-servers-config FILE',
    '--mcp-servers-json JSON',
    '-ag --agent -no-ag --no-agent',
  ),
  ...refused('adapters are applied from the start; --lora-scaled says how much', '--lora-init-without-apply'),
  ...refused('leave it out: chat shows text only', 'chat: -sp --special'),
  ...refused('start a server for each model', '--models-preset FILE', '--sleep-idle-seconds N'),
];
