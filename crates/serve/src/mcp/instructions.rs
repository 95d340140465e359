//! What an agent is told at the start of a connection, and again by the prompt of that name.

/// The name of the prompt.
pub(crate) const PROMPT_NAME: &str = "capseal-instructions";
/// What the prompt is for.
pub(crate) const PROMPT_DESCRIPTION: &str =
    "How to ask before acting, record what was done, and seal the recording";

/// The instructions.
pub(crate) const INSTRUCTIONS: &str = "\
This server keeps a signed record of what you do in this workspace, for the people who answer for it.

1. Call capseal_status once, before anything else.
2. Before each change to a file, each command and each other step with an effect, call capseal_gate \
with its type, a description, the files, and the diff or the command.
   - approve: do it.
   - flag: do not do it yet. Show your user the reasons and ask. Your user may also answer with \
`countersign approve`.
   - deny: do not do it. Tell your user the reasons, and find another way or stop.
3. After each action call capseal_record with its outcome and the gate_token, also if it failed.
4. When the task is done, call capseal_seal once and tell your user where the file is.

Before you change a file that you do not know, capseal_context shows what was done to it before. \
Record what happened as it happened: the record is checked by others, and nothing can be taken out of it.";
