/**
 * Codes of failed system calls. Only `ENOENT` and `ENOTDIR` mean that nothing is at a path. Any other failure (`EMFILE`, `EIO`,
 * `EACCES`) means that the path could not be checked: it is passed on, because what is believed to be absent is deleted, made anew or
 * forgotten.
 */

/** The system's code for the failure of a call, such as `ENOENT`; `undefined`: the error has none. */
export const codeOf = (error: unknown): unknown => error instanceof Error && "code" in error ? error.code : undefined

export const isAbsence = (error: unknown): boolean => codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR"

/** For the rejection of a call on a path: `absent` where nothing is there. Throws every other error. */
export const ifAbsent = <A>(absent: A) => (error: unknown): A => {
  if (isAbsence(error)) return absent
  throw error
}

/** For a call on a path in `/proc` of a process: `ended` where there is no such process. Throws every other error. */
export const ifEnded = <A>(ended: A) => (error: unknown): A => {
  if (isAbsence(error) || codeOf(error) === "ESRCH") return ended
  throw error
}
