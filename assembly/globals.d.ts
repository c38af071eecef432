/** For editors and the type check: what the compiler knows from asconfig.json. */

/** Defined in the dot-add builds alone ("use": DOT_ADD=1). */
declare const DOT_ADD: i32;
