/** Whether something is at a path. Rejects where that cannot be checked: see `@slipway/domain/files/rules/SystemError`. */
import { ifAbsent } from "@slipway/domain/files/rules/SystemError"
import { readdir, readFile, stat } from "node:fs/promises"

/** Whether something is at the path. */
export const isThere = (path: string): Promise<boolean> => stat(path).then(() => true, ifAbsent(false))

/** The names in the folder; none where there is no such folder. */
export const namesIn = (folder: string): Promise<ReadonlyArray<string>> => readdir(folder).catch(ifAbsent([]))

/** The text of the file; `absent` where there is no such file. */
export const textIn = <A>(file: string, absent: A): Promise<string | A> => readFile(file, "utf8").catch(ifAbsent(absent))
