import { assert, describe, it } from "@effect/vitest"
import { codeOf, codeTextOf, ifAbsent, ifCode, ifEnded, isAbsence } from "@slipway/domain/files/rules/SystemError"

const failed = (code: string) => Object.assign(new Error("the call failed"), { code })
/** `absent`: nothing is at the path. `ended`: the process does not exist. */
const errors: ReadonlyArray<readonly [what: string, error: unknown, code: unknown, text: string, is: { absent: boolean; ended: boolean }]> =
  [
    ["ENOENT", failed("ENOENT"), "ENOENT", "ENOENT", { absent: true, ended: true }],
    ["ENOTDIR", failed("ENOTDIR"), "ENOTDIR", "ENOTDIR", { absent: true, ended: true }],
    ["ESRCH", failed("ESRCH"), "ESRCH", "ESRCH", { absent: false, ended: true }],
    ["EACCES", failed("EACCES"), "EACCES", "EACCES", { absent: false, ended: false }],
    ["EMFILE", failed("EMFILE"), "EMFILE", "EMFILE", { absent: false, ended: false }],
    ["an empty code", failed(""), "", "", { absent: false, ended: false }],
    ["no code", new Error("it broke"), undefined, "Error: it broke", { absent: false, ended: false }],
    ["no error", { code: "ENOENT" }, undefined, "[object Object]", { absent: false, ended: false }]
  ]

describe.each(errors)("a failure with %s", (_, error, code, text, is) => {
  /** The result of the handler of a rejection, or the error that it throws. */
  const after = (handle: (error: unknown) => unknown) => {
    try {
      return handle(error)
    } catch (thrown) {
      return thrown
    }
  }

  it("is known by its code, or else by its text", () => {
    assert.strictEqual(codeOf(error), code)
    assert.strictEqual(codeTextOf(error), text)
  })

  it(`${is.absent ? "means" : "does not mean"} that nothing is at the path`, () => {
    assert.strictEqual(isAbsence(error), is.absent)
    assert.strictEqual(after(ifAbsent("absent")), is.absent ? "absent" : error)
  })

  it(`${is.ended ? "means" : "does not mean"} that the process has ended`, () =>
    assert.strictEqual(after(ifEnded("ended")), is.ended ? "ended" : error))

  it("is handled if its code is listed, and thrown again otherwise", () => {
    assert.strictEqual(after(ifCode(["EXDEV", "ENOENT"], "handled")), code === "ENOENT" ? "handled" : error)
    assert.strictEqual(after(ifCode([], "handled")), error)
  })
})
