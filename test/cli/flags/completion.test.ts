/** The flags of quantlet completion. */
import { allCommands } from '../../../src/cli/commands.ts';
import { completionOf } from '../../../src/cli/completion.ts';
import { describeFlags } from './support.ts';

describeFlags(completionOf(allCommands), () => {});
