import { assert, describe, it } from "@effect/vitest"
import * as Colours from "../../src/text/Colours.ts"
import * as Languages from "../../src/text/Languages.ts"

const language = (name: string): Languages.Language => {
  const found = Languages.named(name)
  if (found === null) throw new Error(`no language ${name}`)
  return found
}

/** The coloured parts, as `colour:text`. */
const colours = (name: string, code: string) =>
  [...Colours.read(code, language(name))].flatMap(({ colour, text }) => colour === null ? [] : [`${colour}:${text}`])

const NAMES =
  "bash c clojure cpp csharp css dart dockerfile elixir erlang go graphql haskell html ini java javascript json kotlin lua makefile nix " +
  "php powershell proto python r ruby rust scala sql swift terraform toml typescript yaml zig"

describe("the colours of code", () => {
  it("tell comments, strings, values, words of the language and names apart", () => {
    assert.deepStrictEqual(colours("ts", "export const a: Map = f(`x\ny`, 0x1F, true) // \"no\"\n/* if\n */"), [
      "keyword:export",
      "keyword:const",
      "type:Map",
      "name:f",
      "string:`x\ny`",
      "value:0x1F",
      "value:true",
      "comment:// \"no\"",
      "comment:/* if\n */"
    ])
    assert.deepStrictEqual(colours("js", "a = /['\"]/g; b = c / d / e"), ["string:/['\"]/g"])
    assert.deepStrictEqual(colours("py", "@cache\ndef f(x): # '\n  '''a\n'b''' + None"), [
      "type:@cache",
      "keyword:def",
      "name:f",
      "comment:# '",
      "string:'''a\n'b'''",
      "value:None"
    ])
    assert.deepStrictEqual(colours("sh", "if [ $# = 1 ]; then echo \"a # b\" # c\nfi"), [
      "keyword:if",
      "name:$#",
      "value:1",
      "keyword:then",
      "keyword:echo",
      "string:\"a # b\"",
      "comment:# c",
      "keyword:fi"
    ])
    assert.deepStrictEqual(colours("sql", "select 'it''s' from t -- x"), ["keyword:select", "string:'it'", "string:'s'", "keyword:from",
      "comment:-- x"])
    assert.deepStrictEqual(colours("json", "{\"a\": \"b\", \"c\": 1.5e3}"), ["name:\"a\"", "string:\"b\"", "name:\"c\"", "value:1.5e3"])
    assert.deepStrictEqual(colours("yaml", "- name: x # y\n  on: true\n  url: a#b"), [
      "name:- name",
      "comment:# y",
      "name:on",
      "value:true",
      "name:url"
    ])
    assert.deepStrictEqual(colours("html", "<!-- a --><p class=\"x\">it's</p>"), [
      "comment:<!-- a -->",
      "keyword:<p",
      "name:class",
      "string:\"x\"",
      "keyword:>",
      "keyword:</p",
      "keyword:>"
    ])
    assert.deepStrictEqual(colours("rust", "fn f<'a>(x: &'a str) { '\\n' }"), ["keyword:fn", "keyword:str", "string:'\\n'"])
  })

  it("leave what never ends on its line as text, and go on behind it", () => {
    assert.deepStrictEqual(colours("js", "it's\nlet a"), ["keyword:let"])
    assert.deepStrictEqual(colours("js", "'\\'\\'\nlet"), ["keyword:let"])
    assert.deepStrictEqual(colours("js", "/* never"), ["comment:/* never"])
    assert.deepStrictEqual(colours("js", "`never\nlet"), ["string:`never\nlet"])
  })

  it("lose nothing of any text in any language, and keep its lines", () => {
    const atoms =
      "a A1 _ 1 0x . ( [ { } < </ <a <!-- > \" ' ` \\ / // /* */ * # @ $ ${ -- - = : ; ! % & | \n \t \r\n ''' \"\"\" '' é \u{1f469} \ud800"
        .split(" ")
    for (const name of NAMES.split(" ")) {
      for (const atom of atoms) {
        for (const next of atoms) {
          const code = (atom + next).repeat(3) + "\n" + next + atom
          const pieces = [...Colours.read(code, language(name))]
          assert.strictEqual(pieces.map(({ text }) => text).join(""), code, name)
          assert.strictEqual(Array.from(Colours.lines(pieces), (line) => line.map(({ text }) => text).join("")).join("\n"), code, name)
        }
      }
    }
  })

  it("are those of the language that a fence or a file names", () => {
    assert.strictEqual(Languages.named("TypeScript"), Languages.named("tsx"))
    assert.strictEqual(Languages.ofFile("src/a.test.ts"), Languages.named("ts"))
    assert.strictEqual(Languages.ofFile("deploy/Dockerfile"), Languages.named("docker"))
    assert.strictEqual(Languages.ofFile("Makefile"), Languages.named("make"))
    for (const path of ["README", "a.unknown", "", ".", "ts.", "__proto__", "x.constructor"]) assert.isNull(Languages.ofFile(path), path)
  })
})
