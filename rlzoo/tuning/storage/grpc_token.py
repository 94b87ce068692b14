"""Optuna's storage over gRPC, with a token in the metadata of every call.

Optuna's server and client take no interceptors, which are how gRPC checks and adds metadata. So the server is
put together here from Optuna's servicer, and the client replaces its channel. Both use private modules of
Optuna. A call without the right token ends with UNAUTHENTICATED before it reaches the storage.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
from optuna.storages import BaseStorage, GrpcStorageProxy
from optuna.storages._grpc.auto_generated import api_pb2_grpc
from optuna.storages._grpc.servicer import OptunaStorageProxyService

KEY = "authorization"
THREADS = 10  # of the server, as in Optuna
Metadata = Sequence[tuple[str, str]]


def open_proxy(host: str, port: int, token: str, timeout: float) -> BaseStorage:
    """Connect to a server, and make one call to see that it accepts the token.

    :param timeout: seconds until a server counts as unreachable
    :raises ConnectionError: nobody answers
    :raises PermissionError: the server refuses the token
    """
    storage = _Proxy(host, port, token)
    storage.wait_server_ready(timeout=timeout)
    try:
        storage.get_study_id_from_name("")
    except KeyError:
        pass  # no study has this name, as expected
    except grpc.RpcError as error:
        storage.close()
        if error.code() == grpc.StatusCode.UNAUTHENTICATED:
            raise PermissionError from None
        raise ConnectionError(str(error)) from None
    return storage


def make_server(storage: BaseStorage, host: str, port: int, token: str) -> grpc.Server:
    """Return a server of a storage that refuses calls without the token, if there is one."""
    interceptors = [_CheckToken(token)] if token else []
    server = grpc.server(ThreadPoolExecutor(max_workers=THREADS), interceptors=interceptors)
    api_pb2_grpc.add_StorageServiceServicer_to_server(OptunaStorageProxyService(storage), server)
    server.add_insecure_port(f"{host}:{port}")
    return server


class _Proxy(GrpcStorageProxy):
    """Client of a storage that sends a token with each call."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._token = token
        super().__init__(host=host, port=port)

    def _setup(self) -> None:
        super()._setup()
        if self._token:
            self._channel = grpc.intercept_channel(self._channel, _SendToken(self._token))
            self._stub = api_pb2_grpc.StorageServiceStub(self._channel)
            self._cache = type(self._cache)(self._stub)


class _CallDetails(grpc.ClientCallDetails):
    """Details of a call, with other metadata."""

    def __init__(self, details: grpc.ClientCallDetails, metadata: Metadata) -> None:
        self.method, self.timeout, self.metadata = details.method, details.timeout, metadata
        self.credentials = details.credentials
        self.wait_for_ready = getattr(details, "wait_for_ready", None)
        self.compression = getattr(details, "compression", None)


class _SendToken(grpc.UnaryUnaryClientInterceptor):
    """Adds the token to the metadata of each call."""

    def __init__(self, token: str) -> None:
        self._entry = (KEY, f"Bearer {token}")

    def intercept_unary_unary(
        self, continuation: Callable[..., grpc.Call], details: grpc.ClientCallDetails, request: object
    ) -> grpc.Call:
        return continuation(_CallDetails(details, [*(details.metadata or ()), self._entry]), request)


class _CheckToken(grpc.ServerInterceptor):
    """Refuses calls without the token, in a time that does not depend on how much of it is right."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()
        self._refusal = grpc.unary_unary_rpc_method_handler(_refuse)

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        given = dict(details.invocation_metadata).get(KEY, "")
        if hmac.compare_digest(given.encode(), self._expected):
            return continuation(details)
        return self._refusal


def _refuse(request: object, context: grpc.ServicerContext) -> None:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong or missing token")
