"""Natural gradients: products with a Fisher matrix that is never built, and the linear system in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]
"""v -> A v for a matrix A that is known only through its products."""


def flat_grad(
    output: Tensor, parameters: Sequence[Tensor], create_graph: bool = False, retain_graph: bool = False
) -> Tensor:
    """Compute the gradient of a scalar by all parameters, as one vector; zero where it depends on none.

    :param create_graph: the gradient can be differentiated again
    :param retain_graph: `output` can be differentiated again
    """
    gradients = torch.autograd.grad(
        output,
        parameters,
        create_graph=create_graph,
        retain_graph=retain_graph or create_graph,
        materialize_grads=True,
    )
    return torch.cat([gradient.reshape(-1) for gradient in gradients])


def fisher_vector_product(
    divergence: Tensor, outputs: Sequence[Tensor], parameters: Sequence[Tensor]
) -> Product:
    """Return a function for products with the Fisher matrix of a policy.

    Where both distributions of a mean KL divergence are the same its gradient is zero, and its Hessian with
    respect to the parameters is `J' H J`: J the Jacobian of what the network gives (`outputs`), H the
    Hessian of the divergence with respect to those (Schulman et al. 2015, appendix C.1). A product is one
    linear pass forward through the network and one backward; differentiating the divergence twice through
    the network gives the same numbers for more work.

    :param divergence: mean KL(pi_old || pi), a scalar, at pi = pi_old
    :param outputs: the tensors that the distribution pi is made of (`Distribution.params`)
    :param parameters: what they are functions of
    :return: maps a vector v to `J' H J v`, for as long as the graph of `divergence` lives
    """
    # J' u is linear in u, so that differentiating it with respect to u gives J v.
    cotangents = [torch.zeros_like(output, requires_grad=True) for output in outputs]  # u
    vjp = torch.autograd.grad(outputs, parameters, cotangents, create_graph=True)  # J' u
    kl_gradients = torch.autograd.grad(divergence, outputs, create_graph=True)
    sizes = [parameter.numel() for parameter in parameters]

    def product(vector: Tensor) -> Tensor:
        pieces = [p.view_as(like) for p, like in zip(vector.split(sizes), parameters, strict=True)]
        jvp = torch.autograd.grad(vjp, cotangents, pieces, retain_graph=True)  # J v
        hessian_jvp = torch.autograd.grad(kl_gradients, outputs, jvp, retain_graph=True)  # H J v
        products = torch.autograd.grad(outputs, parameters, hessian_jvp, retain_graph=True)  # J' H J v
        return torch.cat([part.reshape(-1) for part in products])

    return product


def conjugate_gradient_solver(
    matrix_vector_dot_fn: Product, b: Tensor, max_iter: int = 10, residual_tol: float = 1e-10
) -> Tensor:
    """Solve A x = b for a symmetric positive definite A (Hestenes and Stiefel 1952).

    After k steps x is the best solution in the span of b, A b, ..., A^(k-1) b, and the residual b - A x is
    orthogonal to that span.

    :param matrix_vector_dot_fn: v -> A v
    :param b: vector
    :param max_iter: steps; as many as b has entries give the exact solution, but for rounding
    :param residual_tol: the squared norm of the residual at which to stop
    """
    x = torch.zeros_like(b)
    residual = direction = b
    squared = residual @ residual
    for _ in range(max_iter):
        if squared < residual_tol:
            break
        product = matrix_vector_dot_fn(direction)
        step = squared / (direction @ product)
        x = torch.addcmul(x, step, direction)
        residual = torch.addcmul(residual, step, product, value=-1)
        previous, squared = squared, residual @ residual
        direction = torch.addcmul(residual, squared / previous, direction)
    return x
