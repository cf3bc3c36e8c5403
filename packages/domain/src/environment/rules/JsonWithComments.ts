/** JSON with comments and trailing commas, as in devcontainer.json. Both patterns scan any text once. */

/** A string, possibly unterminated, or a comment. */
const COMMENT = /"(?:[^"\\]|\\.)*"?|\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/gsu
/** A string, or a comma between a value and a closing bracket. */
const TRAILING_COMMA = /"(?:[^"\\]|\\.)*"?|,(?<![[{]\s*,)(?=\s*[\]}])/gsu

const blank = (token: string): string => token.startsWith("\"") ? token : token.replace(/[^\n]/gu, " ")

/** Parses the value. Throws the errors of `JSON.parse`; their positions are right, because comments become spaces. */
export const parse = (text: string): unknown => JSON.parse(text.replace(COMMENT, blank).replace(TRAILING_COMMA, blank))
