/**
 * Refusals of fields that an endpoint does not have but that clients send: fields of other
 * protocols' endpoints and of other servers.
 */
import { isRecord } from '../../chat/json.ts';
import { all, LEAVE_OUT, refused, type Allowed, type Refusals } from './field-table.ts';

const FORMATS = "Send 'response_format', 'json_schema' or 'grammar'.";
const ONE_ANSWER = 'There is one answer. Leave it out.';
const PREFIX = 'Put the words that the model wants before a text into the text.';
const CUT = 'Texts are not cut here. Send a shorter one.';
const TEXT_ALONE = "Images are parts of messages, or 'multimodal_data' of a prompt of /completion. Leave it out.";

const OWN_FIELD = 'Reasoning is a part of its own in the answer. Pass over it there.';
const NO_FIELDS: Allowed = { name: '{}', test: (value) => isRecord(value) && Object.keys(value).length === 0 };

/**
 * Fields of vLLM, SGLang, transformers, text-generation-webui, Ollama and others that would change
 * the answer.
 */
export const OTHER_REFUSALS: Refusals = {
  ...all(
    refused(FORMATS),
    'guided_json guided_regex guided_choice guided_grammar guided_whitespace_pattern structured_outputs structural_tag regex ebnf format',
  ),
  ...all(refused("Send 'repeat_penalty', with 'repeat_last_n'.", 1), 'repetition_penalty encoder_repetition_penalty'),
  ...all(refused(LEAVE_OUT, 0), 'min_tokens min_new_tokens min_length'),
  ...all(refused("Send 'stop' with the texts of the tokens, or 'logit_bias'.", []), 'stop_token_ids bad_words'),
  allowed_token_ids: refused("Send a 'grammar'.", []),
  stop_regex: refused("Send 'stop'.", []),
  include_stop_str_in_output: refused('The stop text is not part of the answer. Leave it out.', false),
  no_stop_trim: refused('The stop text is not part of the answer. Leave it out.', false),
  skip_special_tokens: refused('The server decides if control tokens are shown (--special). Leave it out.', true),
  add_special_tokens: refused("Tokens that begin a text are added as the model's file says. Leave it out.", true),
  ...all(refused("Send 'max_tokens'."), 'max_new_tokens num_predict'),
  do_sample: refused("Send 'temperature': 0.", true),
  ...all(refused(LEAVE_OUT, false), 'use_beam_search raw'),
  ...all(refused(LEAVE_OUT, 1), 'length_penalty num_beams guidance_scale tfs_z'),
  ...all(
    refused('This sampler does not exist here. Leave it out.', 0),
    'top_a smoothing_factor no_repeat_ngram_size penalty_alpha epsilon_cutoff eta_cutoff',
  ),
  negative_prompt: refused(LEAVE_OUT, ''),
  ...all(refused(LEAVE_OUT), 'prompt_logprobs truncate_prompt_tokens repetition_detection custom_logit_processor prompt_embeds'),
  logits_processors: refused(LEAVE_OUT, []),
  separate_reasoning: refused('Send \'reasoning_format\': "none".', true),
  ...all(refused("Send 'reasoning_budget_tokens'."), 'thinking_token_budget reasoning_budget max_reasoning_tokens max_thinking_tokens'),
  ...all(refused(OWN_FIELD, true), 'include_reasoning return_reasoning'),
  'reasoning.exclude': refused(OWN_FIELD, false),
  think: refused("Send 'reasoning_effort' or 'enable_thinking'."),
  // OpenAI's Python client merges the fields of its argument `extra_body` into the request; other
  // clients send it unchanged.
  ...all(refused('Send its fields in the request itself.', NO_FIELDS), 'options extra_body'),
  ...all(refused(TEXT_ALONE, []), 'images image_data multimodal_data'),
};

const CALLS: Refusals = all(refused("Send 'tools' and 'tool_choice'.", 'none', []), 'functions function_call');
const NO_CALLS: Refusals = all(refused('Ask /v1/chat/completions.', []), 'tools functions messages');
const PROBABILITIES: Refusals = { logprobs: refused('Ask /v1/chat/completions for log probabilities.', false, 0) };
const UNTOLD: Refusals = all(refused("Put it into the 'prompt'.", '', []), 'system instructions input');

/** Fields refused at /v1/chat/completions. */
export const AT_CHAT: Refusals = {
  ...CALLS,
  ...all(refused("Send it in 'messages'.", '', []), 'system instructions input prompt'),
  best_of: refused("Send 'n'.", 1),
  suffix: refused('Ask /infill to fill in the middle.', ''),
};
/** Fields refused at /v1/responses. */
export const AT_RESPONSES: Refusals = {
  ...CALLS,
  ...PROBABILITIES,
  messages: refused("Send them as 'input'.", []),
  system: refused("Send 'instructions'.", '', []),
  ...all(refused(ONE_ANSWER, 1), 'n n_cmpl best_of'),
  // A field of OpenAI's image generation tool.
  image: refused('Answers are text. Leave it out.'),
};
/** Fields refused at /v1/messages. */
export const AT_MESSAGES: Refusals = {
  ...CALLS,
  ...PROBABILITIES,
  top_logprobs: refused('Ask /v1/chat/completions for log probabilities.', 0),
  ...all(refused("Send it in 'messages'.", '', []), 'input prompt'),
  instructions: refused("Send 'system'.", ''),
  ...all(refused(ONE_ANSWER, 1), 'n n_cmpl best_of'),
};
/** Fields refused at /v1/completions. */
export const AT_COMPLETION: Refusals = { ...NO_CALLS, ...UNTOLD };
/**
 * Fields refused at /completion and /infill. `system_prompt`, `penalize_nl` and `penalty_prompt`
 * are from older versions of llama-server.
 */
export const AT_NATIVE: Refusals = {
  ...NO_CALLS,
  ...UNTOLD,
  ...all(refused('Ask again for another answer.', 1), 'n n_cmpl best_of'),
  echo: refused('The prompt is not part of the answer. Leave it out.', false),
  system_prompt: refused("Put it into the 'prompt'.", ''),
  penalize_nl: refused("Send 'logit_bias'.", false),
  penalty_prompt: refused("Send 'repeat_penalty'."),
};

/** Fields refused at /v1/embeddings: from Cohere, Jina, Voyage, TEI and vLLM. */
export const AT_EMBEDDINGS: Refusals = {
  ...all(refused(PREFIX), 'task prompt instruction'),
  late_chunking: refused('Each text has a vector of its own. Leave it out.', false),
  ...all(refused("Send 'embd_normalize': -1.", true), 'normalize normalized'),
  embedding_types: refused("Send 'output_dtype' with one type.", ['float']),
  truncation_direction: refused('Texts are cut at their ends. Leave it out.', 'Right', 'right'),
  truncation_side: refused('Texts are cut at their ends. Leave it out.', 'right'),
  output_dimension: refused("Send 'dimensions'."),
  add_special_tokens: refused("Tokens that begin a text are added as the model's file says. Leave it out.", true),
  messages: refused("Send texts as 'input'.", []),
};

/** Fields refused at /v1/rerank: from Cohere, Jina, Voyage, TEI and vLLM. */
export const AT_RERANK: Refusals = {
  rank_fields: refused("Send the text of each document as its 'text'.", ['text']),
  ...all(refused(CUT), 'max_tokens_per_doc max_chunks_per_doc truncate_prompt_tokens'),
  instruction: refused(PREFIX),
  top_k: refused("Send 'top_n'."),
};
