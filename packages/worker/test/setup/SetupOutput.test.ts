import { assert, describe, it } from "@effect/vitest"
import { SetupOutput } from "../../src/setup/SetupOutput.ts"

/** Redacts nothing, and holds back the last character of a stream until its end. */
const redaction = {
  stream: () => {
    let held = ""
    return {
      push: (bytes: Uint8Array) => {
        const text = held + new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)
        held = text.slice(-1)
        return text.slice(0, -1)
      },
      end: () => held
    }
  }
}
const written = (...texts: ReadonlyArray<string>) => {
  const told: Array<string> = []
  const output = new SetupOutput(redaction, (text) => told.push(text))
  const stream = output.stream()
  for (const text of texts) stream.push(new TextEncoder().encode(text))
  stream.end()
  return { output, told }
}

describe("the output of a setup", () => {
  it("is told while it is written, and counted", () => {
    const { output, told } = written("ab", "", "c")
    assert.deepStrictEqual(told, ["a", "b", "c"])
    assert.strictEqual(output.version, 3)
    assert.strictEqual(output.text, "abc")
    assert.strictEqual(new SetupOutput(redaction).version, 0)
  })

  it("has a line of the service on a line of its own", () => {
    const { output } = written("no line feed")
    output.say("$ make")
    output.say("$ make all")
    assert.strictEqual(output.text, "no line feed\n$ make\n$ make all\n")
    const first = new SetupOutput(redaction)
    first.say("$ make")
    assert.strictEqual(first.text, "$ make\n")
  })

  it("has no NUL, which cannot be stored", () => assert.strictEqual(written("a\0b").output.text, "a\ufffdb"))

  it("is kept from its end, 1 MiB at most, without splitting a character", () => {
    const mebibyte = 2 ** 20
    assert.lengthOf(written("a".repeat(mebibyte)).output.text, mebibyte)
    assert.strictEqual(written(`b${"a".repeat(mebibyte)}`).output.text, "a".repeat(mebibyte))
    for (const character of ["é", "€", "🦜"]) {
      assert.strictEqual(written(`${character}${"a".repeat(mebibyte - 1)}`).output.text, "a".repeat(mebibyte - 1))
    }
    assert.strictEqual(written(`€${"a".repeat(mebibyte - 3)}`).output.text, `€${"a".repeat(mebibyte - 3)}`)
    assert.strictEqual(written("c".repeat(3 * mebibyte)).output.text, "c".repeat(mebibyte))
    assert.strictEqual(written("\ufeffa").output.text, "\ufeffa")
  })

  it("is shown by its last twelve lines, 1,200 bytes at most, as plain text", () => {
    const lines = Array.from({ length: 13 }, (_, i) => `line ${i}`)
    assert.strictEqual(written(`${lines.join("\n")}\n\n`).output.lastLines, lines.slice(1).join("\n"))
    assert.strictEqual(written("x".repeat(1_201)).output.lastLines, "x".repeat(1_200))
    assert.strictEqual(written("\u001b[1;31mred\u001b[0m\r\nnext\rlast\u0007").output.lastLines, "red\nnext\nlast⟨BEL⟩")
    assert.strictEqual(written("\u001b[mplain").output.lastLines, "plain")
    assert.strictEqual(written("").output.lastLines, "")
  })

  it("is read for that in its last 9,600 characters, whatever is not shown of them", () => {
    const hidden = (times: number) => "\u001b[0m".repeat(times)
    assert.strictEqual(written(`a${hidden(2_400)}`).output.lastLines, "")
    assert.strictEqual(written(`a${hidden(2_399)}`).output.lastLines, "a")
  })
})
