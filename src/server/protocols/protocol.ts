/**
 * Tables of request fields. Each field is read, ignored because it cannot change the answer, or
 * refused by name.
 *
 * docs/server.md has these tables (`npm run generate`). test/server/protocol.test.ts compares them
 * with the types of the official clients. A field in no table is not part of these protocols and
 * has no effect.
 */
import { isRecord } from '../../chat/json.ts';
import { all, ignored, LEAVE_OUT, read, refused, type Allowed, type Field, type FieldTable, type Refusals } from './field-table.ts';
import { AT_CHAT, AT_COMPLETION, AT_EMBEDDINGS, AT_MESSAGES, AT_NATIVE, AT_RERANK, AT_RESPONSES, OTHER_REFUSALS } from './other-fields.ts';

const billing: Field = { fate: 'ignored', why: 'accounts and billing' };
const caching: Field = { fate: 'ignored', why: 'the cache finds shared beginnings by itself' };
const storing: Field = { fate: 'ignored', why: 'nothing is stored' };
const extras: Field = { fate: 'ignored', why: 'more about the answer, without changing it' };
const runs: Field = { fate: 'ignored', why: 'another way to the same tokens' };

/**
 * Tools that OpenAI's servers run. Clients offer them to every server, and the model can answer
 * without them. So they are left out, and a header of the answer says so.
 */
const HOSTED_TOOLS = [
  'web_search',
  'web_search_2025_08_26',
  'web_search_preview',
  'web_search_preview_2025_03_11',
  'file_search',
  'code_interpreter',
  'image_generation',
];
const ONLY_FUNCTIONS = 'Only functions can be called here: offer the tool as {"type": "function"}.';
const directly: Allowed = {
  name: 'a list with "direct"',
  test: (value) => Array.isArray(value) && value.includes('direct'),
};

/** llama-server's fields, common to all generating endpoints. */
const LLAMA_REFUSALS: Refusals = {
  lora: refused('Adapters are part of the loaded model: start the server with --lora-scaled.', []),
  n_indent: refused(LEAVE_OUT, 0),
  n_discard: refused('Half of the context is dropped at a time. Leave it out.', 0),
  ...all(refused("A time limit is the server's (--answer-timeout). Leave it out.", -1, 0), 't_max_prompt_ms t_max_predict_ms'),
  post_sampling_probs: refused('Probabilities are those before sampling. Leave it out.', false),
  ...all(
    refused('This sampler does not exist here. Leave it out.', { name: 'a negative number', test: (value) => Number(value) < 0 }),
    'adaptive_target',
  ),
  grammar_lazy: refused("Offer 'tools': their grammar begins with a call.", false),
  grammar_triggers: refused("Offer 'tools': their grammar begins with a call.", []),
  preserved_tokens: refused(LEAVE_OUT, []),
  ...all(
    refused("Answers are read as the model's template writes them. Leave it out."),
    'chat_format chat_parser generation_prompt message_delimiters',
  ),
  ...all(
    refused("The marks of reasoning are those of the model's template. Leave it out.", '', []),
    'reasoning_budget_start_tag reasoning_budget_end_tag reasoning_budget_end_tags',
  ),
};
const LLAMA_FIELDS = (): FieldTable => ({
  ...all(
    read,
    'temperature dynatemp_range dynatemp_exponent top_k top_p min_p top_n_sigma xtc_probability xtc_threshold typical_p repeat_last_n repeat_penalty presence_penalty frequency_penalty dry_multiplier dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers mirostat mirostat_tau mirostat_eta min_keep samplers seed logit_bias ignore_eos grammar n_keep stop json_schema response_format max_tokens max_completion_tokens n_predict sse_ping_interval',
  ),
  ...all(
    runs,
    'cache_prompt id_slot n_cache_reuse backend_sampling speculative.n_max speculative.n_min speculative.p_min speculative.type speculative.ngram_size_n speculative.ngram_size_m speculative.ngram_min_hits',
  ),
  ...all(extras, 'timings_per_token return_progress response_fields verbose reasoning_control adaptive_decay'),
  ...LLAMA_REFUSALS,
});

const TEMPLATE_FIELDS = (): FieldTable =>
  all(
    read,
    'quantlet.on_context_full chat_template_kwargs reasoning_effort thinking thinking.type thinking.budget_tokens reasoning reasoning.effort reasoning.enabled reasoning.max_tokens enable_thinking thinking_budget reasoning_format reasoning_budget_tokens thinking_budget_tokens reasoning_budget_message',
  );
const CHAT_TEMPLATE: Refusals = {
  chat_template: refused("The template is the server's (--chat-template-file). Leave it out."),
  documents: refused("Put the documents into the 'messages'.", []),
};

/** POST /v1/chat/completions. */
export const CHAT_REFUSALS: Refusals = {
  audio: refused('Answers are text. Leave it out.'),
  modalities: refused('Answers are text.', ['text']),
  moderation: refused('Nothing is moderated here. Leave it out.'),
  verbosity: refused('Say in the messages how long the answer should be.', 'medium'),
  web_search_options: refused('There is no web search here. Leave it out.'),
  'tools[].type': refused(ONLY_FUNCTIONS, 'function', ...HOSTED_TOOLS),
  'messages[].function_call': refused("Send 'tool_calls'."),
  'messages[].audio': refused('Send the text of the audio.'),
  'messages[].images': refused("Send images as parts of 'content'.", []),
  n_cmpl: refused("Send 'n'.", 1),
  echo: refused('The prompt is not part of the answer. Leave it out.', false),
  parse_tool_calls: refused('Calls are read if tools are offered.', true),
  ...LLAMA_REFUSALS,
  ...CHAT_TEMPLATE,
  ...OTHER_REFUSALS,
  ...AT_CHAT,
};
export const CHAT_FIELDS = (): FieldTable => ({
  ...all(
    read,
    'messages model frequency_penalty logit_bias logprobs max_completion_tokens max_tokens n parallel_tool_calls presence_penalty response_format seed stop stream stream_options stream_options.include_usage temperature tool_choice tools top_logprobs top_p json_schema n_predict continue_final_message add_generation_prompt',
  ),
  ...all(billing, 'metadata safety_identifier service_tier user'),
  ...all(caching, 'prompt_cache_key prompt_cache_options prompt_cache_retention'),
  store: storing,
  prediction: runs,
  'stream_options.include_obfuscation': extras,
  ...LLAMA_FIELDS(),
  return_progress: read,
  ...TEMPLATE_FIELDS(),
  ...CHAT_REFUSALS,
});

/** POST /v1/completions. */
export const COMPLETION_REFUSALS: Refusals = {
  suffix: refused('Ask /infill to fill in the middle.', ''),
  'quantlet.on_context_full': refused('A prompt has no turns to leave out: shorten it.', 'error'),
  n_cmpl: refused("Send 'n'.", 1),
  ...LLAMA_REFUSALS,
  ...OTHER_REFUSALS,
  ...AT_COMPLETION,
};
export const COMPLETION_FIELDS = (): FieldTable => ({
  ...all(
    read,
    'model prompt best_of echo frequency_penalty logit_bias logprobs max_tokens n presence_penalty seed stop stream stream_options stream_options.include_usage temperature top_p json_schema response_format n_predict',
  ),
  user: billing,
  'stream_options.include_obfuscation': extras,
  ...LLAMA_FIELDS(),
  return_progress: read,
  ...COMPLETION_REFUSALS,
});

const TOO_LONG = ignored('a text that is too long is refused');

/** POST /v1/embeddings. */
export const EMBEDDING_REFUSALS: Refusals = AT_EMBEDDINGS;
export const EMBEDDING_FIELDS = (): FieldTable => ({
  ...all(
    read,
    'input model dimensions encoding_format embd_normalize pooling truncate truncate_prompt_tokens input_type prompt_name output_dtype embedding_type',
  ),
  user: billing,
  ...EMBEDDING_REFUSALS,
});

/** POST /v1/rerank. */
export const RERANK_REFUSALS: Refusals = AT_RERANK;
export const RERANK_FIELDS = (): FieldTable => ({
  ...all(read, 'query documents texts model top_n return_documents return_text raw_scores'),
  ...all(TOO_LONG, 'truncate truncation_direction'),
  ...RERANK_REFUSALS,
});

const NOT_STORED = "Responses are not stored here. Send the whole conversation as 'input'.";

/** POST /v1/responses. */
export const RESPONSE_REFUSALS: Refusals = {
  include: refused('Ask /v1/chat/completions for log probabilities.', {
    name: 'a list without "message.output_text.logprobs"',
    test: (value) => Array.isArray(value) && !value.includes('message.output_text.logprobs'),
  }),
  background: refused('Responses are not stored here. Leave it out.', false),
  ...all(refused(NOT_STORED), 'previous_response_id conversation prompt'),
  context_management: refused('Leave out the oldest items yourself.', []),
  moderation: refused('Nothing is moderated here. Leave it out.'),
  personality: refused("Describe it in 'instructions'."),
  'reasoning.context': refused('Leave out reasoning that the model should not see again.', 'auto'),
  'reasoning.mode': refused(LEAVE_OUT, 'standard'),
  'text.verbosity': refused("Say in 'instructions' how long the answer should be.", 'medium'),
  top_logprobs: refused('Ask /v1/chat/completions for log probabilities.', 0),
  truncation: refused('Leave out the oldest items.', 'disabled'),
  'tools[].type': refused(ONLY_FUNCTIONS, 'function', 'namespace', ...HOSTED_TOOLS),
  'tools[].tools[].type': refused(ONLY_FUNCTIONS, 'function'),
  'tools[].tools[].defer_loading': refused('There is no tool search here. Leave it out.', false),
  'tools[].defer_loading': refused('There is no tool search here. Leave it out.', false),
  'tools[].allowed_callers': refused('The model calls tools itself.', directly),
  ...LLAMA_REFUSALS,
  ...CHAT_TEMPLATE,
  ...OTHER_REFUSALS,
  ...AT_RESPONSES,
};
export const RESPONSE_FIELDS = (): FieldTable => ({
  ...all(
    read,
    'input instructions max_output_tokens metadata model parallel_tool_calls stream temperature text text.format tool_choice tools top_p',
  ),
  ...all(billing, 'safety_identifier service_tier user'),
  ...all(caching, 'prompt_cache_key prompt_cache_options prompt_cache_retention'),
  store: storing,
  ...all(extras, 'stream_options stream_options.include_obfuscation'),
  ...all(ignored('reasoning comes whole, in plain text'), 'reasoning.summary reasoning.generate_summary'),
  client_metadata: billing,
  max_tool_calls: ignored('a limit for tools that run on the server'),
  ...LLAMA_FIELDS(),
  ...TEMPLATE_FIELDS(),
  ...RESPONSE_REFUSALS,
});

const keepsThinking: Allowed = {
  name: 'edits that keep all thinking',
  test: (value) =>
    isRecord(value) &&
    Object.keys(value).every((name) => name === 'edits') &&
    (!Array.isArray(value.edits) ||
      value.edits.every((edit) => isRecord(edit) && edit.type === 'clear_thinking_20251015' && edit.keep === 'all')),
};

/** POST /v1/messages. */
export const MESSAGE_REFUSALS: Refusals = {
  thread: {
    // A request that creates a thread contains its whole conversation; a request that continues one
    // does not.
    ...refused("Messages are not stored here. Send the whole conversation in 'messages', without 'thread'.", {
      name: '{"type": "create"}',
      test: (value) => isRecord(value) && value.type === 'create',
    }),
    // On this code, Anthropic's client sends the whole conversation again.
    details: { error_code: 'thread_unsupported_request' },
  },
  container: refused('There are no containers here. Leave it out.'),
  mcp_servers: refused('Connect to the servers yourself and offer their tools as functions.', []),
  context_management: refused('Leave out the oldest messages yourself.', keepsThinking),
  compaction: refused('Ask for a summary in a message.'),
  'output_config.task_budget': refused("Send 'max_tokens'."),
  'tools[].type': refused(
    'Only tools with an input_schema can be called here: offer it as {"name", "description", "input_schema"}.',
    'custom',
  ),
  'tools[].defer_loading': refused('There is no tool search here. Leave it out.', false),
  'tools[].allowed_callers': refused('The model calls tools itself.', directly),
  'tools[].input_examples': refused("Put the examples into the 'description'.", []),
  'messages[].output_config': refused("Send 'output_config' of the request."),
  'messages[].clear_at': refused('Leave out the message yourself.', 'never'),
  ...LLAMA_REFUSALS,
  ...CHAT_TEMPLATE,
  ...OTHER_REFUSALS,
  ...AT_MESSAGES,
};
export const MESSAGE_FIELDS = (): FieldTable => ({
  ...all(
    read,
    'messages model max_tokens system stop_sequences stream temperature top_k top_p tool_choice tools output_config output_config.effort output_config.format output_format',
  ),
  ...all(billing, 'billing_policy fallback_credit_token inference_geo metadata service_tier speed user_profile_id workspace_id'),
  betas: ignored('a beta changes nothing by itself; the fields that it opens are listed here'),
  cache_control: caching,
  diagnostics: extras,
  fallbacks: ignored('nothing is declined for a policy, so nothing falls back'),
  ...all(ignored('reasoning comes whole, in plain text'), 'thinking.display thinking.block_binding'),
  ...LLAMA_FIELDS(),
  ...TEMPLATE_FIELDS(),
  ...MESSAGE_REFUSALS,
});

/** POST /completion and /infill of llama-server. */
export const NATIVE_REFUSALS: Refusals = {
  'quantlet.on_context_full': refused('A prompt has no turns to leave out: shorten it.', 'error'),
  ...LLAMA_REFUSALS,
  ...OTHER_REFUSALS,
  ...AT_NATIVE,
};
export const NATIVE_FIELDS = (): FieldTable => ({
  ...all(
    read,
    'prompt model n_predict max_tokens n_probs logprobs return_tokens stop stream json_schema input_prefix input_suffix input_extra',
  ),
  ...LLAMA_FIELDS(),
  return_progress: read,
  ...NATIVE_REFUSALS,
});

/** True for tools that only a provider's server can run. They are left out of the request. */
export const isHosted = (tool: unknown): boolean => isRecord(tool) && HOSTED_TOOLS.includes(tool.type as string);
