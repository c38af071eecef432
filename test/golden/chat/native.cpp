// Renders conversations by templates and parses answers with llama.cpp. Reads a JSON request per
// line and writes a JSON answer per line.
//
// { "template", "messages", "tools"? }
//   -> { "prompt", "systemRole": true if the template supports system messages } or { "error" }
// { "template", "messages", "tools"?, "answer" }
//   -> { "content", "reasoning", "calls": [{ "name", "arguments", "id" }] } or { "error" }
#include "chat.h"
#include "log.h"

#include <iostream>

static common_json answer_of(const common_json & request) {
    common_chat_templates_inputs inputs;
    inputs.messages = common_chat_msgs_parse_oaicompat(request.at("messages"));
    if (request.contains("tools")) {
        inputs.tools = common_chat_tools_parse_oaicompat(request.at("tools"));
    }
    inputs.parallel_tool_calls = true;
    inputs.reasoning_format    = COMMON_REASONING_FORMAT_DEEPSEEK;
    const auto templates = common_chat_templates_init(nullptr, request.at("template"), "<BOS>", "<EOS>");
    const auto params    = common_chat_templates_apply(templates.get(), inputs);
    if (!request.contains("answer")) {
        return {{"prompt", params.prompt}, {"systemRole", common_chat_templates_get_caps(templates.get()).at("supports_system_role")}};
    }
    common_chat_parser_params how(params);
    how.reasoning_format = inputs.reasoning_format;
    how.parser.load(params.parser);
    const auto  message = common_chat_parse(request.at("answer"), false, how);
    common_json calls   = common_json::array();
    for (const auto & call : message.tool_calls) {
        calls.push_back({{"name", call.name}, {"arguments", call.arguments}, {"id", call.id}});
    }
    return {{"content", message.content}, {"reasoning", message.reasoning_content}, {"calls", calls}};
}

int main() {
    common_log_set_verbosity_thold(-1);
    std::string line;
    while (std::getline(std::cin, line)) {
        common_json answer;
        try {
            answer = answer_of(common_json::parse(line));
        } catch (const std::exception & error) {
            answer = {{"error", std::string(error.what())}};
        }
        std::cout << answer.dump_safe() << std::endl;
    }
}
