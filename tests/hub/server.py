"""A small hub in memory: the HTTP API that huggingface_hub speaks to repositories of models.

It knows users, creating, preupload, large-file storage, commits, listings and downloads, and it can fail:
`faults` says how. Downloads of large files are redirected to another host, as those of the real hub are.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

LARGE = (".zip", ".mp4", ".pkl", ".npz")
READER, WRITER = "hf_reader", "hf_writer"
REPO = r"(?P<repo>[^/]+/[^/]+)"


@dataclass
class Repo:
    """A repository: its commits, each with all files, and what its branches and tags mean."""

    private: bool = False
    gated: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def commit(self, files: dict[str, bytes], message: str = "") -> str:
        """Add a commit to the main branch, with exactly these files."""
        sha = hashlib.sha1(f"{len(self.commits)} {sorted(files)}".encode()).hexdigest()
        self.commits[sha] = files
        self.refs["main"] = sha
        self.messages.append(message)
        return sha

    @property
    def files(self) -> dict[str, bytes]:
        """The files of the main branch."""
        return self.commits[self.refs["main"]]

    def resolve(self, revision: str) -> str | None:
        """The commit that a revision means."""
        sha = self.refs.get(revision, revision)
        return sha if sha in self.commits else None


@dataclass
class Faults:
    """What goes wrong."""

    cut_download: str = ""  # the connection ends in the middle of this file
    cuts: int = -1  # so often; -1: each time
    cut_upload: bool = False  # ... of an upload to large-file storage
    listed: dict[str, dict[str, Any]] = field(default_factory=dict)  # file -> what a listing says instead
    more: str = ""  # this file is longer than its listing and its headers say
    statuses: dict[str, int] = field(default_factory=dict)  # start of "METHOD /path" -> status


class Hub(ThreadingHTTPServer):
    """Listens on a free port of this machine."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repos: dict[str, Repo] = {}
        self.storage: dict[str, bytes] = {}  # SHA-256 -> content
        self.faults = Faults()
        self.log: list[tuple[str, str | None]] = []  # ("METHOD /path", token)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def add(self, repo_id: str, files: dict[str, bytes], **kwargs: Any) -> Repo:
        """A repository with one commit."""
        repo = self.repos[repo_id] = Repo(**kwargs)
        repo.commit(files)
        return repo

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that have gone are no news."""


@contextmanager
def running() -> Iterator[Hub]:
    """A hub for the length of a block."""
    hub = Hub()
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code


def is_large(name: str) -> bool:
    return name.endswith(LARGE)


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer takes 40 ms
    server: Hub
    routes = (
        ("GET", r"/api/whoami-v2", "whoami"),
        ("POST", r"/api/repos/create", "create"),
        ("POST", r"/api/validate-yaml", "validate"),
        ("GET", rf"/api/models/{REPO}/tree/(?P<revision>[^/]+)(/(?P<path>.+))?", "tree"),
        ("GET", rf"/api/models/{REPO}(/revision/(?P<revision>[^/]+))?", "info"),
        ("POST", rf"/api/models/{REPO}/paths-info/(?P<revision>[^/]+)", "paths_info"),
        ("POST", rf"/api/models/{REPO}/preupload/(?P<revision>[^/]+)", "preupload"),
        ("POST", rf"/api/models/{REPO}/commit/(?P<revision>[^/]+)", "commit"),
        ("POST", rf"/{REPO}\.git/info/lfs/objects/batch", "batch"),
        ("PUT", r"/storage/(?P<oid>[0-9a-f]{64})", "store"),
        ("GET|HEAD", r"/storage/(?P<oid>[0-9a-f]{64})/(?P<path>.+)", "stored"),
        ("GET|HEAD", rf"/{REPO}/resolve/(?P<revision>[^/]+)/(?P<path>.+)", "resolve"),
    )

    def answer(self) -> None:
        path = urlsplit(self.path).path
        line = f"{self.command} {path}"
        authorization = self.headers.get("Authorization")
        self.token = authorization.removeprefix("Bearer ") if authorization else None
        self.server.log.append((line, self.token))
        try:
            for start, status in self.server.faults.statuses.items():
                if line.startswith(start):
                    raise Refused(status, "so it was told")
            if self.token not in (None, READER, WRITER):
                raise Refused(401, "Invalid credentials in Authorization header")
            for methods, pattern, name in self.routes:
                match = re.fullmatch(pattern, path)
                if match and self.command in methods.split("|"):
                    getattr(self, name)(
                        **{key: unquote(value) for key, value in match.groupdict().items() if value}
                    )
                    return
            raise Refused(404, "Not Found")
        except Refused as error:
            self.body()
            headers = {"X-Error-Message": str(error), **({"X-Error-Code": error.code} if error.code else {})}
            self.reply({"error": str(error)}, error.status, headers)

    do_GET = do_POST = do_PUT = do_HEAD = answer

    # -- the API

    def whoami(self) -> None:
        self.need_token()
        self.reply({"type": "user", "name": "me", "orgs": [{"name": "lab"}]})

    def create(self) -> None:
        asked = json.loads(self.body())
        self.need_token(WRITER)
        repo_id = f"{asked.get('organization') or 'me'}/{asked['name']}"
        if asked.get("organization") not in (None, "me", "lab"):
            raise Refused(403, f"You don't have the rights to create a model under {asked['organization']}")
        if repo_id in self.server.repos:
            self.reply({"error": "it is there", "url": f"{self.server.url}/{repo_id}"}, 409)
            return
        private = asked.get("visibility") == "private" or asked.get("private") is True
        self.server.add(repo_id, {".gitattributes": b"*.zip filter=lfs\n"}, private=private)
        self.reply({"url": f"{self.server.url}/{repo_id}", "id": repo_id})

    def validate(self) -> None:
        content = json.loads(self.body())["content"]
        if not content.startswith("---\n"):
            raise Refused(400, "no metadata")
        self.reply({"errors": [], "warnings": []})

    def info(self, repo: str, revision: str = "main") -> None:
        found, sha = self.find(repo, revision)
        files = [{"rfilename": name} for name in sorted(found.commits[sha])]
        self.reply({"id": repo, "sha": sha, "private": found.private, "siblings": files, "tags": []})

    def tree(self, repo: str, revision: str, path: str = "") -> None:
        found, sha = self.find(repo, revision)
        recursive = parse_qs(urlsplit(self.path).query).get("recursive") == ["True"]
        entries: dict[str, Any] = {}
        for name, content in sorted(found.commits[sha].items()):
            inner = name.removeprefix(f"{path}/") if path else name
            if inner == name and path:
                continue
            folder, slash, _ = inner.partition("/")
            if slash and not recursive and ".." not in name:
                entries[folder] = {"type": "directory", "path": folder, "oid": "0" * 40, "size": 0}
            else:
                entries[name] = self.described(name, content)
        self.reply(list(entries.values()))

    def paths_info(self, repo: str, revision: str) -> None:
        asked = parse_qs(self.body().decode())
        found, sha = self.find(repo, revision)
        files = found.commits[sha]
        self.reply([self.described(name, files[name]) for name in asked["paths"] if name in files])

    def described(self, name: str, content: bytes) -> dict[str, Any]:
        """An entry of a listing."""
        entry: dict[str, Any] = {"type": "file", "path": name, "size": len(content), "oid": blob_id(content)}
        if is_large(name):
            oid = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": oid, "size": len(content), "pointerSize": 130}
        return entry | self.server.faults.listed.get(name, {})

    def preupload(self, repo: str, revision: str) -> None:
        files = json.loads(self.body())["files"]
        self.need_token(WRITER)
        self.find(repo, revision)
        self.reply(
            {
                "files": [
                    {
                        "path": file["path"],
                        "uploadMode": "lfs" if is_large(file["path"]) else "regular",
                        "shouldIgnore": False,
                        "oid": None,
                    }
                    for file in files
                ]
            }
        )

    def batch(self, repo: str) -> None:
        asked = json.loads(self.body())
        self.need_token(WRITER)
        objects = []
        for wanted in asked["objects"]:
            actions = {"upload": {"href": f"{self.server.url}/storage/{wanted['oid']}"}}
            is_there = wanted["oid"] in self.server.storage
            objects.append({**wanted, **({} if is_there else {"actions": actions})})
        self.reply({"transfer": "basic", "objects": objects})

    def store(self, oid: str) -> None:
        if "Content-Length" not in self.headers:
            raise Refused(501, "storage wants the length first")
        if self.server.faults.cut_upload:
            self.rfile.read(10)
            self.hang_up()
            return
        content = self.body()
        if hashlib.sha256(content).hexdigest() != oid:
            raise Refused(400, "another hash")
        self.server.storage[oid] = content
        self.reply({})

    def commit(self, repo: str, revision: str) -> None:
        lines = [json.loads(line) for line in self.body().splitlines()]
        self.need_token(WRITER)
        found, sha = self.find(repo, revision)
        files, message = dict(found.commits[sha]), ""
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                message = value["summary"]
            elif line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.storage[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        sha = found.commit(files, message)
        self.reply({"commitUrl": f"{self.server.url}/{repo}/commit/{sha}", "commitOid": sha})

    def resolve(self, repo: str, revision: str, path: str) -> None:
        found, sha = self.find(repo, revision)
        if found.gated:
            raise Refused(403, "Access to this model is restricted", "GatedRepo")
        if path not in found.commits[sha]:
            raise Refused(404, "Entry not found", "EntryNotFound")
        content = found.commits[sha][path]
        headers = {"X-Repo-Commit": sha}
        if not is_large(path):
            self.send_content(path, content, {**headers, "ETag": f'"{blob_id(content)}"'})
            return
        oid = hashlib.sha256(content).hexdigest()
        self.server.storage[oid] = content
        listed = self.server.faults.listed.get(path, {}).get("lfs", {})
        headers |= {"X-Linked-Size": str(listed.get("size", len(content))), "X-Linked-Etag": f'"{oid}"'}
        elsewhere = self.server.url.replace("127.0.0.1", "localhost")
        headers["Location"] = f"{elsewhere}/storage/{oid}/{path}"
        self.reply({}, 302, headers)

    def stored(self, oid: str, path: str) -> None:
        self.send_content(path, self.server.storage[oid], {"ETag": f'"{oid}"'})

    # -- parts of answers

    def find(self, repo: str, revision: str) -> tuple[Repo, str]:
        found = self.server.repos.get(repo)
        if found is None or (found.private and self.token is None):
            code = 404 if self.token else 401  # as the real hub does, which does not tell who has what
            raise Refused(code, "Repository not found", "RepoNotFound")
        sha = found.resolve(revision)
        if sha is None:
            raise Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return found, sha

    def need_token(self, token: str | None = None) -> None:
        if self.token is None:
            raise Refused(401, "Invalid username or password.")
        if token is not None and self.token != token:
            raise Refused(403, "This token has no write permission")

    def body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            content = b""
            while size := int(self.rfile.readline(), 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return content
        size = int(self.headers.get("Content-Length") or 0)
        self.headers.replace_header("Content-Length", "0") if size else None  # it is read once
        return self.rfile.read(size)

    def reply(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_content(self, path: str, content: bytes, headers: dict[str, str]) -> None:
        start = 0
        if match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start = int(match[1])
        faults = self.server.faults
        self.send_response(206 if start else 200)
        for name, text in headers.items():
            self.send_header(name, text)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if path == faults.more and self.command == "GET":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in (content, b"x" * 1000):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
            return
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        if self.command == "HEAD":
            return
        if path == faults.cut_download and faults.cuts:
            faults.cuts -= 1
            if not start:
                self.wfile.write(content[: len(content) // 2])
            self.hang_up()
            return
        self.wfile.write(content[start:])

    def hang_up(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        pass
