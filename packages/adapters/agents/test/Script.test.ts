import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { parse, type Step } from "../src/offline/Script.ts"

describe("Script", () => {
  it("reads directives in order and ignores everything else", () => {
    assert.deepStrictEqual(parse("First [[think hm]] then [[say hello there]], [[nothing at all]] [[hang]]!"), [
      { kind: "think", text: "hm" },
      { kind: "say", text: "hello there" },
      { kind: "hang" }
    ])
  })

  it("keeps spaces, line ends and brackets of a content", () => {
    assert.deepStrictEqual(parse("[[write path=a.ts content=const a = [1]\n  const b = [[2], [3]\\]\n]]"), [
      { kind: "write", repo: null, path: "a.ts", content: "const a = [1]\n  const b = [[2], [3]]" }
    ])
  })

  it("takes no character but \\] for something else", () => {
    assert.deepStrictEqual(parse("[[shell printf 'a\\nb\\\\' && [[ -f x \\]\\] && sed s/\\\\]//]]"), [
      { kind: "shell", text: "printf 'a\\nb\\\\' && [[ -f x ]] && sed s/\\]//" }
    ])
    assert.deepStrictEqual(parse("[[say a\\]]]"), [{ kind: "say", text: "a]" }])
  })

  it("reads path and repo in either order, quoted where they hold spaces", () => {
    assert.deepStrictEqual(parse(`[[write repo=acme/docs path="a b.md" content=]]`), [
      { kind: "write", repo: "acme/docs", path: "a b.md", content: "" }
    ])
    assert.deepStrictEqual(parse("[[delete path=a repo=acme/docs]]"), [
      { kind: "delete", repo: "acme/docs", path: "a" }
    ])
    assert.deepStrictEqual(parse("[[write path=a content=path=b repo=c]]"), [
      { kind: "write", repo: null, path: "a", content: "path=b repo=c" }
    ])
  })

  it.each([
    "[[say]]",
    "[[write a b]]",
    "[[write path=a]]",
    "[[write content=x]]",
    "[[delete]]",
    "[[delete path=a b]]",
    "[[slow]]",
    "[[slow 5]]",
    "[[slow 5 5 5]]",
    "[[slow -1 5]]",
    "[[slow 1e3 5]]",
    "[[slow 99999 5]]",
    "[[hang 5]]",
    "[[crash now]]"
  ])("explains what is wrong with %s", (script) =>
    assert.deepStrictEqual(
      parse(script).map(({ kind }) => kind),
      ["invalid"]
    ))

  it.each([
    "[[say hello",
    "[say hello]",
    "[[ say hello]]",
    "[[saying hello]]",
    "[[Say hello]]",
    "[[]]",
    "[[say:hello]]",
    ""
  ])("sees no directive in %s", (script) => assert.deepStrictEqual(parse(script), []))

  it("reads a hostile prompt in time", () => {
    assert.deepStrictEqual(parse("[[say ".repeat(10_000)), [])
    assert.deepStrictEqual(parse(`[[say${" ".repeat(60_000)}`), [])
    assert.deepStrictEqual(parse("[[".repeat(30_000)), [])
  })

  const Word = Schema.String.check(Schema.isPattern(/^[a-z0-9 /\\.]*[a-z0-9]$/u))
  const Path = Schema.String.check(Schema.isPattern(/^[a-z0-9/.]+$/u))
  const Text = Schema.Array(Schema.Union([Word, Schema.Literals(["]", "]]", "[[", "[", "\n", "[[say x]]"])])).check(
    Schema.isNonEmpty()
  )
  const write = (step: Step): string => {
    const escape = (text: string) => text.replaceAll("]", "\\]")
    switch (step.kind) {
      case "say":
      case "think":
      case "shell":
      case "error":
        return `[[${step.kind} ${escape(step.text)}]]`
      case "write":
        return step.repo === null
          ? `[[write path=${step.path} content=${escape(step.content)}]]`
          : `[[write path=${step.path} repo=${step.repo} content=${escape(step.content)}]]`
      case "delete":
        return `[[delete path=${step.path}]]`
      case "slow":
        return `[[slow ${step.words} ${step.millis}]]`
      default:
        return `[[${step.kind}]]`
    }
  }
  const Steps = Schema.Array(
    Schema.Struct({
      kind: Schema.Literals(["say", "think", "shell", "error", "write", "delete", "slow", "hang", "listen", "crash", "recall"]),
      text: Text,
      path: Path,
      repo: Schema.NullOr(Path),
      words: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 10_000 }))
    })
  )

  it.prop(
    "reads back every script that was written",
    [Steps, Path],
    ([wanted, between]) => {
      const steps = wanted.map(({ kind, path, repo, text: parts, words }): Step => {
        const text = `x${parts.join("")}x`
        switch (kind) {
          case "write":
            return { kind, path, repo, content: text }
          case "delete":
            return { kind, path, repo: null }
          case "slow":
            return { kind, words: Math.abs(words), millis: 7 }
          case "hang":
          case "listen":
          case "crash":
          case "recall":
            return { kind }
          default:
            return { kind, text }
        }
      })
      assert.deepStrictEqual(parse(steps.map(write).join(between)), steps)
    },
    { arbitrary: { runs: 300 } }
  )

  it.prop("reads any prompt without failing", [Schema.String], ([prompt]) => {
    assert.isArray(parse(`[[say ${prompt}`))
  })
})
