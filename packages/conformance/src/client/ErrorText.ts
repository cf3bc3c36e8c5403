/** An error in one line: its message, and its code if the message lacks it. */
export const errorOf = (error: unknown): string => {
  const message = error instanceof Error ? error.message : String(error)
  const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : ""
  return `${message}${message.includes(code.slice(2, -1)) && message !== "" ? "" : code}`.trim().replaceAll(
    /\s+/gu,
    (blank) => blank.includes("\n") ? " " : blank
  )
}
