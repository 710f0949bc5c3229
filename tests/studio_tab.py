"""A tab that shows the page of a studio, without a browser."""

from __future__ import annotations

import time
from pathlib import Path

from starlette.testclient import TestClient

from apportion.studio._server import application
from apportion.studio._studio import Studio
from apportion.studio._workspace import Workspace

TOKEN, PORT = "t0ken", 8765
OWN = f"http://127.0.0.1:{PORT}"
DIARY = "participant,date,sleep,tv\np1,2024-03-04,8h,16h\np1,2024-03-05,6h,18h\n"


class Page:
    """A tab that shows the page of a folder."""

    def __init__(self, folder, tab="one"):
        self.studio = Studio(Workspace(Path(folder)))
        self.client = TestClient(
            application(self.studio, TOKEN, PORT), base_url=OWN, raise_server_exceptions=False
        )
        self.tab = tab
        self.state = self.get("api/state").json()

    def get(self, path, **headers):
        return self.client.get(f"/{TOKEN}/{path}", headers={"X-Tab": self.tab, **headers})

    def ask(self, method, path, status=200, **more):
        """Send a change, and return the answer; the state is what it left."""
        headers = {"X-Tab": self.tab, "X-Revision": str(self.state["revision"])}
        answer = self.client.request(method, f"/{TOKEN}/{path}", headers=headers, **more)
        assert answer.status_code == status, (answer.status_code, answer.text)
        if status == 200:
            self.state = answer.json()
        return answer.json()

    def give(self, role, content, name="file.csv", status=200):
        content = content.encode() if isinstance(content, str) else content
        return self.ask("PUT", f"api/files/{role}", status, params={"name": name}, content=content)

    def wait(self):
        """Return the state once no job runs."""
        end = time.monotonic() + 60
        while self.state["job"]["state"] == "running":
            assert time.monotonic() < end, self.state["job"]
            time.sleep(0.01)
            self.state = self.get("api/state").json()
        return self.state

    def run(self, how="run"):
        self.ask("POST", f"api/{how}", json={})
        state = self.wait()
        assert state["job"]["state"] == "done", state["job"]
        return state

    def close(self):
        self.studio.close()
