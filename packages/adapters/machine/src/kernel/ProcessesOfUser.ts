import { ifAbsent, ifEnded } from "@slipway/domain/files/rules/SystemError"
import { readdirSync, readFileSync } from "node:fs"

/** Running processes of a user. Throws where `/proc` is there and cannot be read. */
export const ofUser = (uid: number): ReadonlyArray<number> => {
  try {
    return readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).flatMap((name) => {
      try {
        const status = readFileSync(`/proc/${name}/status`, "latin1")
        return new RegExp(`^Uid:\t(?:\\d+\t)*${uid}(?:\t|$)`, "mu").test(status) && !/^State:\t[ZX]/mu.test(status) ? [Number(name)] : []
      } catch (error) {
        return ifEnded([])(error)
      }
    })
  } catch (error) {
    return ifAbsent([])(error)
  }
}
