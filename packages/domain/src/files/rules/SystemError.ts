/**
 * Codes of failed system calls. Only `ENOENT` and `ENOTDIR` mean that nothing is at a path. Any other failure (`EMFILE`, `EIO`,
 * `EACCES`) means that the path could not be checked: it is passed on, because what is believed to be absent is deleted, made anew or
 * forgotten.
 */

/** The system's code of a failed call, such as `ENOENT`; `undefined`: the error has no code. */
export const codeOf = (error: unknown): unknown => error instanceof Error && "code" in error ? error.code : undefined

/** The code; for an error without a code, its text. */
export const codeTextOf = (error: unknown): string => String(codeOf(error) ?? error)

/** Handles the rejection of a call: returns `value` if the error has one of these codes, and throws every other error. */
export const ifCode = <A>(codes: ReadonlyArray<string>, value: A) => (error: unknown): A => {
  if (codes.some((code) => code === codeOf(error))) return value
  throw error
}

/** Whether the error means that the path does not exist. */
export const isAbsence = (error: unknown): boolean => codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR"

/** Handles the rejection of a call on a path: returns `absent` if the path does not exist, and throws every other error. */
export const ifAbsent = <A>(absent: A) => (error: unknown): A => {
  if (isAbsence(error)) return absent
  throw error
}

/** Handles the rejection of a call on a path in `/proc`: returns `ended` if the process does not exist, and throws every other error. */
export const ifEnded = <A>(ended: A) => (error: unknown): A => {
  if (isAbsence(error) || codeOf(error) === "ESRCH") return ended
  throw error
}
