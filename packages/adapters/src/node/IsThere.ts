/**
 * Only `ENOENT` and `ENOTDIR` say that nothing is at a path. Any other failure (`EMFILE`, `EIO`, `EACCES`) says that nobody could look:
 * it is passed on, because what is believed to be absent is deleted, made anew or forgotten.
 */
import { readdir, readFile, stat } from "node:fs/promises"
import { codeOf } from "./ErrorCode.ts"

export const isAbsence = (error: unknown): boolean => codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR"

/** For the rejection of a call on a path: `absent` where nothing is there. Throws every other error. */
export const ifAbsent = <A>(absent: A) => (error: unknown): A => {
  if (isAbsence(error)) return absent
  throw error
}

/** Whether something is at the path. Rejects where nobody can tell. */
export const isThere = (path: string): Promise<boolean> => stat(path).then(() => true, ifAbsent(false))

/** The names in the folder; none where there is no such folder. */
export const namesIn = (folder: string): Promise<ReadonlyArray<string>> => readdir(folder).catch(ifAbsent([]))

/** The text of the file; `absent` where there is no such file. */
export const textIn = <A>(file: string, absent: A): Promise<string | A> => readFile(file, "utf8").catch(ifAbsent(absent))

/** For a call on a path in `/proc` of a process: `ended` where there is no such process. Throws every other error. */
export const ifEnded = <A>(ended: A) => (error: unknown): A => {
  if (isAbsence(error) || codeOf(error) === "ESRCH") return ended
  throw error
}
