import { assert, describe, it } from "@effect/vitest"
import { resumable, write } from "../../src/turn/SavedSession.ts"

const place = { workspace: "/work/shop", home: "/home/agent" }
const elsewhere = { workspace: "/other/shop", home: "/other/home" }

describe("an agent's session", () => {
  it.each([
    [true, true, "anywhere"],
    [true, false, "at the path of its home"],
    [false, true, "at the path of its workspace"],
    [false, false, "at both of its paths"]
  ])("of an agent that bears another workspace (%s) and another home (%s) resumes %s", (workspace, home) => {
    const resumed = (now: typeof place) => resumable(write("s-1", place), now, { workspace, home }) === "s-1"
    assert.isTrue(resumed(place))
    assert.strictEqual(resumed({ ...place, workspace: elsewhere.workspace }), workspace)
    assert.strictEqual(resumed({ ...place, home: elsewhere.home }), home)
    assert.strictEqual(resumed(elsewhere), workspace && home)
  })

  it("is not resumed at paths that its agent does not bear", () =>
    assert.isNull(resumable(write("s-1", place), elsewhere, { workspace: false, home: false })))

  it("of a version that saved only its id resumes anywhere", () => {
    for (const saved of ["s-1", "\"s-1\"", "{\"session\":\"s-1\"}"]) {
      assert.strictEqual(resumable(saved, elsewhere, { workspace: false, home: false }), saved)
    }
  })
})
