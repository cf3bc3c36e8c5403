/** Lines of a text, each function in one pass: texts of agents and strangers have any length. */

/** The lines with their line feeds. Joined, they are the text. */
export const linesOf = (text: string): ReadonlyArray<string> => text === "" ? [] : text.split(/(?<=\n)/u)

/** The trimmed text on one line: `⏎` replaces a line feed and the white space around it. */
export const inOneLine = (text: string): string => text.trim().replaceAll(/\s+/gu, (blank) => blank.includes("\n") ? " ⏎ " : blank)
