import { createRoot } from 'react-dom/client';
import { Chat } from './Chat.jsx';
import { createChatModel } from './model.js';

// ?model=URL names another model: a URL of a GGUF file, or hf:owner/repo:quant.
const source = new URLSearchParams(location.search).get('model') ?? 'hf:ggml-org/Qwen3-0.6B-GGUF:Q8_0';
createRoot(document.getElementById('root')).render(<Chat {...createChatModel(source)} />);
