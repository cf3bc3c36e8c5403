/** The script that git runs in a box for `BoxGit`, and its environment. */
import { CONFIG, ENVIRONMENT } from "../Git.ts"

/** The index of about 300,000 files. */
export const MAXIMUM_INDEX_BYTES = 33_554_432

/**
 * Arguments: the operation, seconds of processor time, a private folder (empty: TMPDIR), the tree, the commit it started from, `own` if
 * GIT_DIR is not the worker's, and options of a comparison. Without `own`, new objects are kept so that the next look does not pack them
 * again, and objects of the worker may be missing.
 *
 * Unless the input names the files, the output begins with names and ends them with an empty name; the input then says what to do with
 * them. If there is something to `take` (what git learned of files), the size of the index and the index follow. A snapshot begins after an
 * input line with objects that need not be packed. Then come the size of the names of files in the index, these names, and those of new
 * files.
 *
 * Files of Git LFS that have their contents are in the index by the ids of those, which are no objects (`FillPointers`). No git that reads
 * objects sees such an id for a file that differs: comparisons are with a tree that has the ids of contents for unchanged files alone, and
 * a snapshot has their pointers.
 *
 * In boxes without isolation git could read files outside the tree. There `names` asks for names alone, and the tree is a folder of ours
 * with copies of these files, `copied`. The input of a comparison, and of a snapshot after its first line, then has the size of the
 * removals from the index, as lines of `update-index --index-info`, the removals, and the names of the copies. Starting a process takes
 * longer than most of its work.
 */
export const SCRIPT = `
what=$1; ulimit -t "$2"; isolated=$3; place=\${3:-$TMPDIR}/git-$$; tree=$4; base=$5; own=$6; copied=$7; take=$8
shift 8
objects=$place/objects; [ "$what" != snapshot ] || objects=$TMPDIR/.git-objects-\${GIT_DIR##*/}
# Left behind by a git process that was killed, or there are none.
umask 077; mkdir "$place" "$objects" 2> /dev/null || { rm -rf "$place" "$objects"; mkdir "$place" "$objects" || exit 1; }
trap 'rm -rf "$place" "$objects"' EXIT
export HOME=/nonexistent GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$place/index"
set -e
cd "$tree"

if [ "$what" = ignored ]; then
  # An index of these alone, since only of what is in an index git says that it should not be.
  git update-index --replace -z --index-info
  git ls-files --cached --ignored --exclude-standard -z
  exit
fi

cp -p "$GIT_DIR/index" "$GIT_INDEX_FILE"
# Git does not look into the folder of a submodule. A folder with files and no repository that \`.gitmodules\` does not name is the agent's
# own; other folders with files are listed, because nothing else reads them. The mode of a submodule is 00 00 e0 00 in an index. Of one
# that was checked out the host has a repository: it is not listed while its files are as they were, or as in the commit it is at.
: > "$place/submodules"
export isolated
touched='
  touched() {
    module=$GIT_DIR/modules/$(printf %s "$1" | sha256sum | cut -d " " -f 1)
    set -- "$PWD/$1"
    [ -d "$module" ] && [ ! -L "$1/.git" ] && [ -d "$1/.git" ] || return 0
    own=$module
    if [ "$(head -c 100 "$1/.git/HEAD" 2> /dev/null)" != "$(cat "$module/HEAD")" ]; then
      # The settings of an agent count in its box alone.
      [ -n "$isolated" ] || return 0
      own=$1/.git
    fi
    said=$(GIT_DIR=$own GIT_WORK_TREE=$1 GIT_INDEX_FILE=$own/index git status --porcelain --ignore-submodules=all) || return 0
    [ -n "$said" ]
  }
'
if LC_ALL=C grep -qaP '\\x00\\x00\\xe0\\x00' "$GIT_INDEX_FILE"; then
  git ls-files --stage -z | sed -zn 's/^160000 [^\t]*\t//p' | xargs -0 -r sh -c "$touched"'
    for path; do
      [ ! -L "$path" ] && [ -d "$path" ] && [ -n "$(find "./$path" -mindepth 1 -print -quit)" ] || continue
      if [ -e "$path/.git" ] ||
        git config --file .gitmodules --fixed-value --get-regexp --end-of-options "^submodule\\..*\\.path$" "$path" > /dev/null; then
        ! touched "$path" || printf "!! %s\\0" "$path" >&3
      else printf "%s\\0" "$path"; fi
    done
  ' sh > "$place/folders" 3> "$place/submodules"
  [ ! -s "$place/folders" ] || git update-index -z --force-remove --stdin < "$place/folders"
  if [ -f "$GIT_DIR/modules/paths" ]; then
    git ls-files --stage -z | sed -zn 's/^160000 [^\t]*\t//p' | sort -z > "$place/links"
    sort -z "$GIT_DIR/modules/paths" | comm -z -13 "$place/links" - | xargs -0 -r sh -c "$touched"'
      for path; do
        [ -d "$path" ] && [ -e "$path/.git" ] && touched "$path" && printf "!! %s\\0" "$path"
      done
      :
    ' sh >> "$place/submodules"
  fi
fi
status() {
  cat "$place/submodules"
  # What it learned of files, it writes to the index.
  GIT_OPTIONAL_LOCKS=\${take:+1} git status --porcelain=v1 -z --untracked-files=all --no-renames --ignore-submodules=dirty
  printf '\\0'
}
tell() {
  size=0
  [ -z "$take" ] || size=$(($(wc -c < "$GIT_INDEX_FILE")))
  [ "$size" -le ${MAXIMUM_INDEX_BYTES} ] || size=0
  echo "$size"
  [ "$size" -eq 0 ] || cat "$GIT_INDEX_FILE"
}

large=$GIT_DIR/lfs
[ -f "$large/contents" ] || large=
# The entries of unchanged files of LFS, by the index: with their contents, then with their pointers.
contents() {
  git ls-files --stage -z | sort -z | comm -z -12 "$large/contents" -
}
pointers() {
  contents | comm -z -23 "$large/contents" - | sed -z 's/^[^\t]*\t//' > "$place/different"
  GIT_INDEX_FILE=$place/pointers git update-index -z --index-info < "$large/pointers"
  [ ! -s "$place/different" ] || GIT_INDEX_FILE=$place/pointers git update-index -z --force-remove --stdin < "$place/different"
  GIT_INDEX_FILE=$place/pointers git ls-files --stage -z
}
# The tree to compare with.
started() {
  GIT_INDEX_FILE=$place/started git read-tree "$base"
  contents | GIT_INDEX_FILE=$place/started git update-index -z --index-info
  GIT_INDEX_FILE=$place/started git write-tree --missing-ok
}

if [ "$what" = names ]; then
  status
  tell
  exit
fi

if [ "$what" = changes ] && [ -z "$copied" ]; then
  git ls-files --others --exclude-standard -z
  printf '\\0'
  cat > "$place/chosen"
  [ -z "$take$large" ] || git update-index -q --refresh --force-write-index || [ $? -eq 1 ]
  tell
  if [ -n "$large" ]; then
    export GIT_ALTERNATE_OBJECT_DIRECTORIES="$GIT_DIR/objects" GIT_OBJECT_DIRECTORY="$objects"
    cp "$GIT_INDEX_FILE" "$place/now"
    git diff-files --name-only -z --ignore-submodules=all > "$place/changed"
    base=$(
      export GIT_INDEX_FILE="$place/now"
      git update-index -z --force-remove --stdin < "$place/changed"
      started
    )
  fi
  [ ! -s "$place/chosen" ] || git update-index -z --index-info < "$place/chosen"
  git diff "$@" "$base" --
  exit
fi

enter() { git update-index --add --remove --replace -z --stdin; }
store=$objects
[ -z "$own" ] || [ ! -w "$GIT_DIR/objects" ] || store=$GIT_DIR/objects
export GIT_ALTERNATE_OBJECT_DIRECTORIES="$GIT_DIR/objects" GIT_OBJECT_DIRECTORY="$store"
[ "$what" = changes ] || read -r known
[ -n "$copied" ] || status
read -r length
cat > "$place/chosen"
if [ -z "$copied" ]; then
  tell
else
  head -c "$length" "$place/chosen" | git update-index -z --index-info
  tail -c "+$((length + 1))" "$place/chosen" | enter
fi
if [ "$what" = changes ]; then
  [ -z "$large" ] || base=$(started)
  git diff --cached "$@" "$base" --
  exit
fi
if [ -z "$copied" ] && [ -s "$place/chosen" ] && ! enter < "$place/chosen"; then
  # Files that cannot be read stay as they were: then it ends with 1.
  git add --update --ignore-errors || [ $? -eq 1 ]
  tail -c "+$((length + 1))" "$place/chosen" | xargs -0 sh -c '
    for file; do if [ -L "$file" ] || { [ -f "$file" ] && [ -r "$file" ]; }; then printf "%s\\0" "$file"; fi; done
  ' sh > "$place/readable"
  enter < "$place/readable"
fi
if [ -n "$large" ]; then
  pointers > "$place/unchanged"
  git update-index -z --index-info < "$place/unchanged"
fi
made=$(git write-tree)
echo "$made"
case " $known " in *" $made "*) exit ;; esac
[ -z "$own" ] || known=$(printf '%s\\n' $known | git cat-file --batch-check='%(objectname) %(objecttype)' | sed -n 's/ tree$//p')
{ echo "$made"; printf '^%s^{tree}\\n' "$base" $known; } | git pack-objects --revs --stdout --quiet --window=0

# Some thousands of files in all: what is in one of 256 folders tells.
[ "$store" != "$objects" ] && [ "$(ls "$store/17" 2> /dev/null | wc -l)" -gt 27 ] || exit 0
(cd "$store" && find ?? -type f | tr -d /) | git pack-objects --quiet --window=0 --threads=1 "$store/pack/pack" > /dev/null
git prune-packed --quiet
`

/** Beside what every git of ours goes by. What is written there is thrown away, or read anew by the host. */
const BOX_CONFIG = [
  ...CONFIG,
  "core.fsync=none",
  "core.compression=1",
  "core.bigFileThreshold=16m",
  // A file counts as unchanged only if its size, times, owner and number are those of the index: git reads any other.
  "core.checkStat=default",
  "core.trustctime=true"
]

export const BOX_ENVIRONMENT: Readonly<Record<string, string>> = {
  ...ENVIRONMENT,
  GIT_PAGER: "cat",
  GIT_LITERAL_PATHSPECS: "1",
  GIT_CONFIG_COUNT: `${BOX_CONFIG.length}`,
  ...Object.fromEntries(BOX_CONFIG.flatMap((entry, i) => {
    const [name = "", ...value] = entry.split("=")
    return [[`GIT_CONFIG_KEY_${i}`, name], [`GIT_CONFIG_VALUE_${i}`, value.join("=")]]
  }))
}

/** Seconds, of a processor and of the clock: enough for 100,000 files of which 20,000 differ. */
export const PATIENCE = { changes: 60, ignored: 20, names: 60, snapshot: 120 }
