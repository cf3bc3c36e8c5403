import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { coAuthorTrailer, MAX_TOLD, pullRequestBody, withoutEffect } from "@slipway/domain/publishing/rules/PullRequestText"

const sandboxId = SandboxId.make("c_aaaaaaaaaaaa")
const body = (message: string, address: string | null = null) => pullRequestBody({ sandboxId, address, message })
/** The lines of the block with the agent's text. */
const quoted = (message: string) => {
  const lines = body(message).trimEnd().split("\n")
  const fence = lines.at(-1) ?? ""
  assert.match(fence, /^`{3,}$/u)
  const begin = lines.indexOf(`${fence}text`)
  assert.isAbove(begin, 0)
  return { fence, lines: lines.slice(begin + 1, -1) }
}

describe("the description of a new pull request", () => {
  it("names the sandbox, and links to it where the service has a public address", () => {
    assert.strictEqual(body(""), "Opened by Slipway from sandbox c_aaaaaaaaaaaa.")
    assert.strictEqual(
      body(" \n", "https://slipway.example"),
      "Opened by Slipway from sandbox [c_aaaaaaaaaaaa](https://slipway.example/sandboxes/c_aaaaaaaaaaaa)."
    )
  })

  it("has the agent's last message as text", () => {
    assert.deepStrictEqual(quoted("Done.\n\n- one\n- two\n").lines, ["Done.", "", "- one", "- two"])
  })

  it.each([
    ["HTML", "<img src=x onerror=alert(1)><!-- hidden -->"],
    ["an image", "![x](/x.png)"],
    ["a fence", "```\n</details>\n```"],
    ["a longer fence", "````````\ntext\n`````````"],
    ["a fence of tildes", "~~~\nx\n~~~"]
  ])("keeps %s within the block", (_, message) => {
    const { fence, lines } = quoted(message)
    assert.strictEqual(lines.join("\n"), message)
    assert.isFalse(lines.some((line) => line.trim().length >= fence.length && /^`+$/u.test(line.trim())))
  })

  it("mentions no account and closes no issue, also as the message of a commit", () => {
    const text = withoutEffect("@ada cc @acme/team, fixes #12, closes acme/shop#3, resolves GH-4 and https://github.com/a/b/issues/5")
    assert.notMatch(text, /@[A-Za-z0-9]|#\d|GH-\d|:\/\/\S/u)
    assert.strictEqual(withoutEffect("mail a@example.com, #define X, C#"), "mail a@example.com, #define X, C#")
  })

  it("shows hidden characters by name and drops the codes of terminals", () => {
    assert.strictEqual(withoutEffect("\u001b[31mred\u001b[0m \u001b]0;title\u0007x\r\ny"), "red x\ny")
    assert.strictEqual(withoutEffect("a\u202eb"), "a⟨RIGHT-TO-LEFT OVERRIDE⟩b")
    assert.strictEqual(withoutEffect("@\u200bada"), "@⟨ZERO WIDTH SPACE⟩ada")
  })

  it("is bounded, whatever the agent wrote", () => {
    for (
      const message of ["x".repeat(60_000), "\u202e".repeat(60_000), "`".repeat(60_000), "@a".repeat(30_000), "\u{1F680}".repeat(30_000)]
    ) {
      const whole = body(message)
      assert.isBelow(whole.length, 4 * MAX_TOLD)
      assert.isTrue(whole.isWellFormed())
      assert.isAtMost(Math.max(...quoted(message).lines.map((line) => Array.from(line).length)), 100)
    }
  })

  it("lists the subjects of the agent's commits, oldest first, one line each", () => {
    const commits = ["Add search", "  Fix\tthe\nindex ", "", "Close #12, cc @ada"]
    const whole = pullRequestBody({ sandboxId, address: null, message: "Done.", commits })
    assert.include(whole, "\n\nThe agent's last message:\n\n```text\nDone.\n```\n")
    assert.isTrue(whole.endsWith("\n\nIts commits:\n\n```text\n- Add search\n- Fix the index\n- Close # 12, cc @ ada\n```\n"))
    assert.notInclude(body("Done."), "Its commits")
  })

  it("is bounded and safe, whatever the subjects are", () => {
    for (
      const text of ["x".repeat(10_000), "\u202e".repeat(10_000), "```\n<img src=x>", "\u001b[31mred\u001b[0m", "\u{1F680}".repeat(150)]
    ) {
      const whole = pullRequestBody({ sandboxId, address: null, message: "", commits: Array.from({ length: 500 }, () => text) })
      assert.isBelow(whole.length, 2 * MAX_TOLD)
      assert.isTrue(whole.isWellFormed())
      const lines = whole.trimEnd().split("\n")
      const fence = lines.at(-1) ?? ""
      const begin = lines.indexOf(`${fence}text`)
      assert.isAbove(begin, 0)
      for (const line of lines.slice(begin + 1, -1)) {
        assert.isAtMost(Array.from(line).length, 100)
        assert.isFalse(/^`+$/u.test(line) && line.length >= fence.length)
        assert.notInclude(line, "\u001b")
      }
    }
  })

  it("breaks long lines at spaces", () => {
    const words = Array.from({ length: 60 }, (_, i) => `word${i}`).join(" ")
    const { lines } = quoted(words)
    assert.isAbove(lines.length, 1)
    assert.strictEqual(lines.join(" "), words)
  })
})

describe("the trailer of a co-author", () => {
  const person = { name: "Ada Lovelace", email: "ada@example.com", githubLogin: "ada" }

  it("has the name and the address as they are known", () => {
    assert.strictEqual(coAuthorTrailer(person, "github.com"), "Co-authored-by: Ada Lovelace <ada@example.com>")
  })
  it("has the host's own address where there is no other", () => {
    assert.strictEqual(
      coAuthorTrailer({ ...person, email: null }, "github.com"),
      "Co-authored-by: Ada Lovelace <ada@users.noreply.github.com>"
    )
    assert.isNull(coAuthorTrailer({ ...person, email: null }, "local"))
    assert.isNull(coAuthorTrailer({ ...person, email: null, githubLogin: null }, "github.com"))
  })
  it("is one line whatever the name is", () => {
    assert.strictEqual(
      coAuthorTrailer({ ...person, name: "Eve <e@x>\nSigned-off-by: \u202eX\u2028" }, "local"),
      "Co-authored-by: Eve e@x Signed-off-by: X <ada@example.com>"
    )
    assert.strictEqual(coAuthorTrailer({ ...person, name: "\u200b" }, "local"), "Co-authored-by: ada@example.com <ada@example.com>")
    assert.isNull(coAuthorTrailer({ ...person, email: "a>b@x" }, "local"))
  })
})
