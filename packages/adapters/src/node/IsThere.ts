import { stat } from "node:fs/promises"

/** Whether something that we can look at is at the path. */
export const isThere = (path: string): Promise<boolean> => stat(path).then(() => true, () => false)
