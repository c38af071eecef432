/** Names that the compiler knows from asconfig.json, declared for editors and the type check. */

/** Defined in the dotadd builds only ("use": DOT_ADD=1). */
declare const DOT_ADD: i32;
