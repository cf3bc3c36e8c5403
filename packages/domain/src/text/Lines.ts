/** Lines of a text, each in one walk over it: agents and strangers write texts of any length. */

/** The lines with their line feeds: joined, they give the text. */
export const linesOf = (text: string): ReadonlyArray<string> => text === "" ? [] : text.split(/(?<=\n)/u)

/** The text without blanks at its ends, in one line: `⏎` stands for a line feed and the blanks around it. */
export const inOneLine = (text: string): string => text.trim().replaceAll(/\s+/gu, (blank) => blank.includes("\n") ? " ⏎ " : blank)
