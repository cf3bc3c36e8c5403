/** The part of TOML that agents' configuration files need. */

/** A basic string. JSON's escapes are valid in TOML; TOML also requires DEL to be escaped. */
export const string = (text: string): string => JSON.stringify(text.toWellFormed()).replaceAll("\u007F", "\\u007F")
