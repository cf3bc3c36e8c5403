/** JSON with comments and trailing commas, as devcontainer.json is written. Both patterns take a text in one walk, whatever it is. */

/** A string, whole or up to where it breaks off, or a comment. */
const COMMENT = /"(?:[^"\\]|\\.)*"?|\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/gsu
/** A string, or a comma with something before it and a closing bracket behind it. */
const TRAILING_COMMA = /"(?:[^"\\]|\\.)*"?|,(?<![[{]\s*,)(?=\s*[\]}])/gsu

const blank = (token: string): string => token.startsWith("\"") ? token : token.replace(/[^\n]/gu, " ")

/** The value. Throws what `JSON.parse` throws; places in its message are those of the text, since nothing is moved. */
export const parse = (text: string): unknown => JSON.parse(text.replace(COMMENT, blank).replace(TRAILING_COMMA, blank))
