/** TOML, as far as configuration files of agents need it. */

/** A basic string: JSON's escapes are TOML's too, but for DEL, which TOML wants escaped. */
export const string = (text: string): string => JSON.stringify(text.toWellFormed()).replaceAll("\u007F", "\\u007F")
